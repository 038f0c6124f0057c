# tries: map all users of the host into a namespace
# stopped: one may map oneself only
# control: no
# bare bwrap stops it: yes
unshare -U sh -c "echo 0 0 4294967295 > /proc/self/uid_map"
