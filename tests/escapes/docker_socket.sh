# tries: ask the Docker daemon for a container
# stopped: a socket that the environment names is covered
# control: yes
# bare bwrap stops it: no
python3 -c "import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ[\"DOCKER_HOST\"][7:])"
