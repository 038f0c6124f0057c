# tries: remove the hooks
# stopped: a mount point can't be removed
# control: yes
rm -r .git/hooks
