# tries: move a hidden file to another name
# stopped: a mount point can't be renamed
# control: yes
# bare bwrap stops it: no
mv hidden.txt shown.txt && grep -q hidden-words shown.txt
