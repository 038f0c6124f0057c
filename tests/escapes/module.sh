# tries: load a kernel module
# stopped: no capabilities
# control: no
modprobe dummy || insmod /dev/null
