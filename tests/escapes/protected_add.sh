# tries: add a file to a protected folder
# stopped: it is read-only
# control: yes
# bare bwrap stops it: no
echo x > .sid/new
