# tries: edit the ignore file that hides
# stopped: it is protected
# control: yes
echo > .sidignore
