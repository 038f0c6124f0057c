# tries: enter the namespaces of process 1
# stopped: process 1 is the sandbox's own
# control: no
# bare bwrap stops it: yes
nsenter -t 1 -m sh -c "echo x > \"\$OUTSIDE/f\""
