# tries: point Git at a program
# stopped: its configuration is read-only
# control: yes
# bare bwrap stops it: no
git config core.fsmonitor /bin/true
