# tries: write through the root of process 1
# stopped: process 1 is the sandbox's own
# control: no
# bare bwrap stops it: yes
echo x > "/proc/1/root$OUTSIDE/f"
