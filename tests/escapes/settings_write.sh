# tries: give oneself another mode in sid's settings
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
echo "[permissions]" >> "$HOME/.config/sid/settings.toml"
