# tries: leave a file in the host's /tmp
# stopped: /tmp is private to the command
# control: no
touch "/tmp/$MARK" && test -e "$OUTSIDE/tmp-is-shared"
