# tries: delete a file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
rm "$OUTSIDE/f"
