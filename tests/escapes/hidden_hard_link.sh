# tries: give a hidden file a second name
# stopped: a link can't cross mounts
# control: yes
# bare bwrap stops it: no
ln hidden.txt second && grep -q hidden-words second
