# tries: write through /proc/self/root
# stopped: it leads to the sandbox's own root
# control: yes
echo x > "/proc/self/root$OUTSIDE/f"
