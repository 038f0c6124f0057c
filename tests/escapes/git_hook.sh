# tries: plant a Git hook
# stopped: hooks are read-only
# control: yes
# bare bwrap stops it: no
echo "#!/bin/sh" > .git/hooks/pre-commit
