# tries: set the clock
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
date -s "2001-01-01"
