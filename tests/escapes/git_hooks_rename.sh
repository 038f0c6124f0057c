# tries: move the hooks away and put others there
# stopped: a mount point can't be renamed
# control: yes
mv .git/hooks .git/h && mkdir .git/hooks
