# tries: move the repository away and make another
# stopped: a mount point can't be renamed
# control: yes
# bare bwrap stops it: no
mv .git g && mkdir .git
