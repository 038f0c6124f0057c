# tries: have the kernel run a program on a crash
# stopped: /proc/sys is read-only
# control: no
# bare bwrap stops it: yes
echo "|/bin/true" > /proc/sys/kernel/core_pattern
