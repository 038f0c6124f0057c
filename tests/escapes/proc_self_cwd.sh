# tries: write through /proc/self/cwd
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
cd / && echo x > "/proc/self/cwd$OUTSIDE/f"
