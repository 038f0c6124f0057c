# tries: write through /proc/self/root
# stopped: it leads to the sandbox's own root
# control: yes
# bare bwrap stops it: yes
echo x > "/proc/self/root$OUTSIDE/f"
