# tries: ask the agent for signatures
# stopped: a socket that the environment names is covered
# control: yes
# bare bwrap stops it: no
python3 -c "import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ[\"SSH_AUTH_SOCK\"])"
