# tries: change the host's name
# stopped: no capabilities, and /proc/sys is read-only
# control: no
# bare bwrap stops it: yes
hostname sid-was-here || echo sid-was-here > /proc/sys/kernel/hostname
