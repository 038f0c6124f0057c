# tries: replace a protected file
# stopped: a mount point can't be replaced
# control: yes
# bare bwrap stops it: no
echo "x = 1" > t && mv t sid.toml
