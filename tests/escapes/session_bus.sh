# tries: ask the session bus to start something
# stopped: a socket that the environment names is covered
# control: yes
# bare bwrap stops it: no
python3 -c "import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ[\"DBUS_SESSION_BUS_ADDRESS\"].split(\"=\")[1])"
