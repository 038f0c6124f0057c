# tries: connect to a port of the host
# stopped: a network of its own
# control: yes
# bare bwrap stops it: yes
python3 -c 'import os, socket; socket.create_connection(("127.0.0.1", int(os.environ["HOST_PORT"])), 2)'
