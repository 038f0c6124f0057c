# tries: move the repository away and make another
# stopped: a mount point can't be renamed
# control: yes
mv .git g && mkdir .git
