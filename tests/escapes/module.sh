# tries: load a kernel module
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
modprobe dummy || insmod /dev/null
