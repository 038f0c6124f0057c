# tries: gain capabilities in a user namespace and remount
# stopped: the inherited mounts are locked
# control: no
# bare bwrap stops it: yes
unshare -Ur sh -c 'mount -o remount,rw,bind / / && echo x > "$OUTSIDE/f"'
