# tries: make a control group
# stopped: /sys is read-only
# control: no
# bare bwrap stops it: yes
mkdir /sys/fs/cgroup/sid-was-here
