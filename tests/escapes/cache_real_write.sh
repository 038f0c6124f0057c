# tries: poison the user's own build cache
# stopped: commands have caches of their own
# control: yes
# bare bwrap stops it: yes
mkdir -p "$HOME/.cargo/registry/src/x" && echo x > "$HOME/.cargo/registry/src/x/lib.rs"
