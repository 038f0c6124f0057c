# tries: read a hidden file
# stopped: it is covered
# control: yes
# bare bwrap stops it: no
grep -q hidden-words hidden.txt
