# tries: reach the host by naming it as a proxy
# stopped: a network of its own
# control: yes
# bare bwrap stops it: yes
http_proxy="http://127.0.0.1:$HOST_PORT" python3 -c "import os, socket, urllib.parse; it = urllib.parse.urlparse(os.environ[\"http_proxy\"]); socket.create_connection((it.hostname, it.port), 2)"
