# tries: move the hooks away and put others there
# stopped: a mount point can't be renamed
# control: yes
# bare bwrap stops it: no
mv .git/hooks .git/h && mkdir .git/hooks
