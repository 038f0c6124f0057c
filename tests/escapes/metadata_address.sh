# tries: ask the cloud for credentials at its local address
# stopped: a network of its own
# control: no
# bare bwrap stops it: yes
python3 -c "import socket; socket.create_connection((\"169.254.169.254\", 80), 2)"
