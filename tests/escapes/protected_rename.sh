# tries: move a protected folder away
# stopped: a mount point can't be renamed
# control: yes
mv .sid s
