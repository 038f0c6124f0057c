# tries: move the folder of a hidden file to where no rule is
# stopped: each folder above it is a mount point
# control: yes
# bare bwrap stops it: no
mv vault moved
