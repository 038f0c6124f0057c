# tries: read from the caller's standard input
# stopped: it is /dev/null
# control: no
# bare bwrap stops it: yes
test "$(readlink /proc/self/fd/0)" != /dev/null
