# Prints the longest line of standard input; of several, the first.
longest=
while IFS= read -r line; do
    if [ "${#line}" -ge "${#longest}" ]; then
        longest=$line
    fi
done
printf '%s\n' "$longest"
