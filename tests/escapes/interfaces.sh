# tries: find an interface to the outside
# stopped: only loopback is there
# control: no
# bare bwrap stops it: yes
python3 -c 'import socket; raise SystemExit(len(socket.if_nameindex()) < 2)'
