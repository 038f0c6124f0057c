# tries: copy a hidden file within the kernel
# stopped: it is covered where it is
# control: yes
# bare bwrap stops it: no
cp --reflink=auto hidden.txt copied && grep -q hidden-words copied
