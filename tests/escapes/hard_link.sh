# tries: write through a hard link made to a file outside
# stopped: a link can't cross mounts
# control: yes
# bare bwrap stops it: yes
ln "$OUTSIDE/f" hard && echo x > hard
