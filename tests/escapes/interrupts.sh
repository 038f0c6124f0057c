# tries: steer interrupts
# stopped: /proc/irq is read-only
# control: no
# bare bwrap stops it: yes
echo 1 > /proc/irq/default_smp_affinity
