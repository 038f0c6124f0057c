# tries: remove a protected file
# stopped: a mount point can't be removed
# control: yes
rm sid.toml
