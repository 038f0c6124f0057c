# tries: reboot by sysrq
# stopped: it is read-only or absent
# control: no
echo h > /proc/sysrq-trigger
