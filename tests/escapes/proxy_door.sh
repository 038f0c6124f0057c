# tries: use the door of a proxy that nobody opened
# stopped: there is none without a policy
# control: no
# bare bwrap stops it: yes
python3 -c "import socket; socket.create_connection((\"127.0.0.1\", 3128), 2)"
