# tries: give a file outside more blocks
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
fallocate -l 4096 "$OUTSIDE/f"
