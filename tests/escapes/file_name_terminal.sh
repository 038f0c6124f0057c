# tries: steer the terminal by the name of a file
# stopped: control characters never reach it
# control: no
# bare bwrap stops it: yes
touch "$(printf "\033]0;owned\007")" && ls; exit 1
