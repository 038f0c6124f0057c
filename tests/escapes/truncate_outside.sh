# tries: truncate a file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
truncate -s 0 "$OUTSIDE/f"
