# tries: remount the root writable
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
mount -o remount,rw / && echo x > "$OUTSIDE/f"
