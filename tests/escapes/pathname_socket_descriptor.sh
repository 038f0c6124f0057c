# tries: connect to a socket file through an open folder
# stopped: it is covered in every path
# control: yes
# bare bwrap stops it: no
python3 -c "import os, socket; s = os.environ[\"SOCKET\"]; d = os.open(os.path.dirname(s), os.O_PATH); socket.socket(socket.AF_UNIX).connect(\"/proc/self/fd/%d/%s\" % (d, os.path.basename(s)))"
