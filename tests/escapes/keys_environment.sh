# tries: find a key of sid in any environment
# stopped: children never get them, and sid wipes its own
# control: no
# bare bwrap stops it: yes
cat /proc/[0-9]*/environ 2>/dev/null | tr "\0" "\n" | grep -q sk-test-key
