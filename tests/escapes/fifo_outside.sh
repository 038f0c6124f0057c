# tries: make a pipe outside for somebody to read
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
mkfifo "$OUTSIDE/new"
