# tries: make a network interface
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
ip link add sid0 type dummy 2>/dev/null
