# tries: edit the ignore file that hides
# stopped: it is protected
# control: yes
# bare bwrap stops it: no
echo > .sidignore
