# tries: chroot elsewhere
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
chroot / sh -c true
