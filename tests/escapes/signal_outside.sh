# tries: signal a process outside
# stopped: it has no pid in here
# control: yes
# bare bwrap stops it: yes
kill -0 "$HOST_PID"
