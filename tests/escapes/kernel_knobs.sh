# tries: write a knob in /sys
# stopped: /sys is read-only
# control: no
echo 1 > /sys/kernel/profiling
