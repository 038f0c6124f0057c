# tries: find an interface to the outside
# stopped: only loopback is there
# control: no
python3 -c 'import socket; raise SystemExit(len(socket.if_nameindex()) < 2)'
