# tries: read a hidden file through a link
# stopped: it is covered where it is
# control: yes
# bare bwrap stops it: no
ln -s hidden.txt h && grep -q hidden-words h
