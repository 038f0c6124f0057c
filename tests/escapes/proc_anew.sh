# tries: mount a /proc that shows the host
# stopped: a new one shows the new namespace only
# control: no
# bare bwrap stops it: yes
unshare -Urpmf --mount-proc sh -c "test -d /proc/\$HOST_PID/fd && ls /proc/\$HOST_PID/fd"
