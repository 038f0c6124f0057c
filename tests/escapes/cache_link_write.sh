# tries: poison the user's build settings through a link in the cache
# stopped: the link leads to where nothing can be written
# control: yes
# bare bwrap stops it: yes
echo "# x" >> "${CARGO_HOME:-$HOME/.cargo}/config.toml"
