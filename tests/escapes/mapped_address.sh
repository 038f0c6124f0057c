# tries: reach the host by an IPv4 address inside an IPv6 one
# stopped: a network of its own
# control: yes
# bare bwrap stops it: yes
python3 -c "import os, socket; s = socket.socket(socket.AF_INET6); s.settimeout(2); s.connect((\"::ffff:127.0.0.1\", int(os.environ[\"HOST_PORT\"])))"
