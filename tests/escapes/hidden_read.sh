# tries: read a hidden file
# stopped: it is covered
# control: yes
grep -q hidden-words hidden.txt
