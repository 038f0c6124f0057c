# tries: remount a bind writable
# stopped: no capabilities
# control: no
mount -o remount,rw,bind "$OUTSIDE" && echo x > "$OUTSIDE/f"
