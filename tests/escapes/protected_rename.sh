# tries: move a protected folder away
# stopped: a mount point can't be renamed
# control: yes
# bare bwrap stops it: no
mv .sid s
