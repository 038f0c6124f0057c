# tries: point Git at a program
# stopped: its configuration is read-only
# control: yes
git config core.fsmonitor /bin/true
