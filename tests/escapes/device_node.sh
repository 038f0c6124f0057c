# tries: make a block device
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
mknod disk b 8 0
