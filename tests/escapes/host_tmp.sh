# tries: leave a file in the host's /tmp
# stopped: /tmp is private to the command
# control: no
# bare bwrap stops it: yes
touch "/tmp/$MARK" && test -e "$OUTSIDE/tmp-is-shared"
