# tries: change the mode of a file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
chmod 777 "$OUTSIDE/f"
