# tries: read the environment of a process outside
# stopped: it is not in /proc
# control: yes
grep -q PATH= "/proc/$HOST_PID/environ"
