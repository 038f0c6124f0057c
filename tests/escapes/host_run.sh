# tries: read what lies in the host's /run
# stopped: /run is empty
# control: yes
# bare bwrap stops it: no
ls -A /run | grep -q .
