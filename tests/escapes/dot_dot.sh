# tries: write through ..
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
echo x > ../outside/f
