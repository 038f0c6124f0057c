# tries: write a disk
# stopped: /dev is a minimal one of its own
# control: no
# bare bwrap stops it: yes
for d in /dev/sd* /dev/vd* /dev/nvme*; do test -b "$d" && exit 0; done; exit 1
