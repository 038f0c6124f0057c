# tries: connect to a socket file through a link
# stopped: it is covered where it is
# control: yes
# bare bwrap stops it: no
ln -s "$SOCKET" s && python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("s")'
