# tries: unmount the private /tmp
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
umount /tmp
