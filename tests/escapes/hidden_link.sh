# tries: read a hidden file through a link
# stopped: it is covered where it is
# control: yes
ln -s hidden.txt h && grep -q hidden-words h
