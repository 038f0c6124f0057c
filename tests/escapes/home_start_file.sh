# tries: plant a line in a start file of the home
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
echo evil >> "$HOME/.bashrc"
