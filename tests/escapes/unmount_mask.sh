# tries: unmount the private /tmp
# stopped: no capabilities
# control: no
umount /tmp
