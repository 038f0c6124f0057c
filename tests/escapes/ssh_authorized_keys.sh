# tries: let oneself in by a key of one's own
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
mkdir -p "$HOME/.ssh" && echo key >> "$HOME/.ssh/authorized_keys"
