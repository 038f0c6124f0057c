# tries: open a raw socket
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'
