# tries: bind the folder elsewhere in a namespace and write there
# stopped: a read-only mount stays so when it is bound
# control: no
# bare bwrap stops it: yes
unshare -Urm sh -c 'mkdir -p /tmp/m && mount --bind "$OUTSIDE" /tmp/m && echo x > /tmp/m/f'
