# tries: reach the host by the address of no interface
# stopped: a network of its own
# control: yes
# bare bwrap stops it: yes
python3 -c "import os, socket; socket.create_connection((\"0.0.0.0\", int(os.environ[\"HOST_PORT\"])), 2)"
