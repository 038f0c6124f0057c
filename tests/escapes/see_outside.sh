# tries: see a process outside
# stopped: /proc shows the sandbox's own processes
# control: yes
# bare bwrap stops it: yes
test -d "/proc/$HOST_PID" && tr "\0" " " < "/proc/$HOST_PID/cmdline" | grep -q cli
