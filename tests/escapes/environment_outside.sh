# tries: read the environment of a process outside
# stopped: it is not in /proc
# control: yes
# bare bwrap stops it: yes
grep -q PATH= "/proc/$HOST_PID/environ"
