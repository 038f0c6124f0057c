# tries: replace Git's configuration by renaming
# stopped: a mount point can't be replaced
# control: yes
# bare bwrap stops it: no
cp .git/config c && echo "[core]" >> c && mv c .git/config
