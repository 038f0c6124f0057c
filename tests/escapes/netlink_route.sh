# tries: give oneself a route by netlink
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
ip route add default dev lo 2>/dev/null
