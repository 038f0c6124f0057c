# tries: read what lies in the host's shared memory
# stopped: /dev/shm is private
# control: yes
# bare bwrap stops it: yes
grep -q mark "/dev/shm/$MARK"
