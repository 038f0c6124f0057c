# tries: trust the workspace in the user's name
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
mkdir -p "$HOME/.local/state/sid" && echo "[]" > "$HOME/.local/state/sid/trust.json"
