# tries: connect to a socket file of the host
# stopped: it is covered
# control: yes
# bare bwrap stops it: no
python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ["SOCKET"])'
