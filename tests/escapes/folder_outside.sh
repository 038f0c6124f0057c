# tries: make a folder outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
mkdir "$OUTSIDE/d"
