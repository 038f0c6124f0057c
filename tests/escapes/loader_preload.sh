# tries: have every program load a library
# stopped: the file system outside the workspace is mounted read-only
# control: no
# bare bwrap stops it: yes
echo planted >> /etc/ld.so.preload
