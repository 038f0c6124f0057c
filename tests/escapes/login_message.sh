# tries: leave a message in the user's terminal
# stopped: no terminal of the host is there
# control: no
# bare bwrap stops it: yes
for t in /dev/pts/[0-9]*; do echo owned > $t && exit 0; done; exit 1
