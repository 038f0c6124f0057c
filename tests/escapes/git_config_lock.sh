# tries: replace Git's configuration as Git itself does
# stopped: a mount point can't be replaced
# control: yes
# bare bwrap stops it: no
cp .git/config .git/config.lock && mv .git/config.lock .git/config
