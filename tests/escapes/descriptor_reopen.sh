# tries: open a read-only descriptor anew for writing
# stopped: the mount is read-only whatever the path
# control: yes
# bare bwrap stops it: yes
exec 3< "$OUTSIDE/f" && echo x > /proc/self/fd/3
