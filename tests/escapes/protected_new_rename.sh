# tries: rename something to a protected name
# stopped: it is moved aside at once
# control: yes
# bare bwrap stops it: no
mkdir d && mv d .codex && for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; test -d .codex || exit 1; done
