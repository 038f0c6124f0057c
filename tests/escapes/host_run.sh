# tries: read what lies in the host's /run
# stopped: /run is empty
# control: yes
ls -A /run | grep -q .
