# tries: move a file from outside into the workspace
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
mv "$OUTSIDE/f" taken
