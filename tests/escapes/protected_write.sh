# tries: write a protected file
# stopped: it is read-only
# control: yes
# bare bwrap stops it: no
echo "x = 1" >> sid.toml
