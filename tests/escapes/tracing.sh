# tries: switch the kernel's tracing
# stopped: /sys is read-only
# control: no
# bare bwrap stops it: yes
for f in /sys/kernel/tracing/tracing_on /sys/kernel/debug/tracing/tracing_on; do test -e $f && echo 0 > $f && exit 0; done; exit 1
