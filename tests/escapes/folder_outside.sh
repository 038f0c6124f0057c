# tries: make a folder outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
mkdir "$OUTSIDE/d"
