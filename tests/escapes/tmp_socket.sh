# tries: connect to a socket in the host's /tmp
# stopped: /tmp is private to the command
# control: yes
# bare bwrap stops it: yes
python3 -c "import os, socket; socket.socket(socket.AF_UNIX).connect(\"/tmp/\" + os.environ[\"MARK\"] + \".sock\")"
