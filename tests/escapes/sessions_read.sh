# tries: read the sessions
# stopped: they are covered
# control: yes
cat "$SESSIONS"/*/events.jsonl | grep -q opened
