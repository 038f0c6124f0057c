# tries: steer interrupts
# stopped: /proc/irq is read-only
# control: no
echo 1 > /proc/irq/default_smp_affinity
