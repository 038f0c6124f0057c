# tries: make a control group
# stopped: /sys is read-only
# control: no
mkdir /sys/fs/cgroup/sid-was-here
