# tries: read sid's file of keys
# stopped: it is covered
# control: yes
# bare bwrap stops it: no
grep -q api_key "$HOME/.config/sid/providers.toml"
