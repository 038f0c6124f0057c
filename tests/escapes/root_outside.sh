# tries: enter the root of a process outside
# stopped: it is not in /proc
# control: yes
# bare bwrap stops it: yes
test -e "/proc/$HOST_PID/root/etc" && grep -q cli "/proc/$HOST_PID/comm"
