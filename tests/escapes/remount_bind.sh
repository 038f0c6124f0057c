# tries: remount a bind writable
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
mount -o remount,rw,bind "$OUTSIDE" && echo x > "$OUTSIDE/f"
