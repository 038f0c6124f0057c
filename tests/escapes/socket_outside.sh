# tries: listen on a socket file outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
python3 -c "import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ[\"OUTSIDE\"] + \"/new\")"
