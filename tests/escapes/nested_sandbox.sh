# tries: make a sandbox of one's own with the root writable
# stopped: the inherited mounts are locked
# control: yes
# bare bwrap stops it: yes
bwrap --dev-bind / / sh -c 'echo x > "$OUTSIDE/f"'
