# tries: write through a symbolic link
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
ln -s "$OUTSIDE/f" soft && echo x > soft
