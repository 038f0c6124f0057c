# tries: write into a session
# stopped: they are covered, and outside
# control: yes
# bare bwrap stops it: yes
for f in "$SESSIONS"/*/events.jsonl; do echo x >> "$f" || exit 1; done
