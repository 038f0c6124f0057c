# tries: replace a protected file
# stopped: a mount point can't be replaced
# control: yes
echo "x = 1" > t && mv t sid.toml
