# tries: change the times of a file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
touch -d '1 year ago' "$OUTSIDE/f"
