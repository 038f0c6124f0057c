# tries: add a file to a protected folder
# stopped: it is read-only
# control: yes
echo x > .sid/new
