# tries: move a file out of the workspace
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
echo x > mine && mv mine "$OUTSIDE/f"
