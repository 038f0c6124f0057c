# tries: set the clock
# stopped: no capabilities
# control: no
date -s "2001-01-01"
