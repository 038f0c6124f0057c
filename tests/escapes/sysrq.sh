# tries: reboot by sysrq
# stopped: it is read-only or absent
# control: no
# bare bwrap stops it: yes
echo h > /proc/sysrq-trigger
