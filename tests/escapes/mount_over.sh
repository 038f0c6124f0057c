# tries: mount over a folder outside
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
mount -t tmpfs none "$OUTSIDE"
