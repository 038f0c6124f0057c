failed=0
check() {
    got=$(printf "$1" | sh ./longest.sh)
    if [ "$got" = "$2" ]; then
        echo "ok      $3"
    else
        echo "FAILED  $3: wanted '$2', got '$got'"
        failed=1
    fi
}
check 'a\nlonger\nb\n' longer 'finds the longest line'
check 'one\ntwo\n' one 'prefers the first of equal lines'
check 'x\n' x 'takes a single line'
exit $failed
