# tries: mount over a folder outside
# stopped: no capabilities
# control: no
mount -t tmpfs none "$OUTSIDE"
