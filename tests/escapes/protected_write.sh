# tries: write a protected file
# stopped: it is read-only
# control: yes
echo "x = 1" >> sid.toml
