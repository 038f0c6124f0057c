# tries: make a block device
# stopped: no capabilities
# control: no
mknod disk b 8 0
