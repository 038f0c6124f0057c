# tries: remount the root writable
# stopped: no capabilities
# control: no
mount -o remount,rw / && echo x > "$OUTSIDE/f"
