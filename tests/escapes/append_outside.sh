# tries: append to a file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
echo x >> "$OUTSIDE/f"
