# tries: read the sessions
# stopped: they are covered
# control: yes
# bare bwrap stops it: yes
cat "$SESSIONS"/*/events.jsonl | grep -q opened
