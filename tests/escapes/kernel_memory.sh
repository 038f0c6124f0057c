# tries: read the kernel's memory
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
head -c 1 /proc/kcore
