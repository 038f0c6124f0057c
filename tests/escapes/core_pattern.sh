# tries: have the kernel run a program on a crash
# stopped: /proc/sys is read-only
# control: no
echo "|/bin/true" > /proc/sys/kernel/core_pattern
