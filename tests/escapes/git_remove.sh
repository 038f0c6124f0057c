# tries: remove the hooks
# stopped: a mount point can't be removed
# control: yes
# bare bwrap stops it: no
rm -r .git/hooks
