# tries: remove a protected file
# stopped: a mount point can't be removed
# control: yes
# bare bwrap stops it: no
rm sid.toml
