# tries: gain privileges by a set-uid program
# stopped: no new privileges
# control: yes
# bare bwrap stops it: yes
grep -q "NoNewPrivs:.0" /proc/self/status
