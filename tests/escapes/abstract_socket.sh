# tries: connect to an abstract socket of the host
# stopped: they belong to the network namespace
# control: yes
# bare bwrap stops it: yes
python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect("\0" + os.environ["ABSTRACT"])'
