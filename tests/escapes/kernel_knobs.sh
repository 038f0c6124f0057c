# tries: write a knob in /sys
# stopped: /sys is read-only
# control: no
# bare bwrap stops it: yes
echo 1 > /sys/kernel/profiling
