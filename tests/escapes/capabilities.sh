# tries: hold a capability
# stopped: all are dropped
# control: no
# bare bwrap stops it: yes
! grep -q "CapEff:.0000000000000000" /proc/self/status || ! grep -q "CapBnd:.0000000000000000" /proc/self/status
