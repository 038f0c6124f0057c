# tries: move the folder of a protected file away
# stopped: each folder above it is a mount point
# control: yes
# bare bwrap stops it: no
mv conf moved
