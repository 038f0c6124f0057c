# tries: write a file outside the workspace
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
echo x > "$OUTSIDE/f"
