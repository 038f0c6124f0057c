# tries: delete a file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
rm "$OUTSIDE/f"
