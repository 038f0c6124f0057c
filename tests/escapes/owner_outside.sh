# tries: give a file outside to somebody else
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
chgrp "$(id -g)" "$OUTSIDE/f"
