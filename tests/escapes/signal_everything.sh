# tries: signal every process there is
# stopped: there are only its own
# control: no
# bare bwrap stops it: yes
trap "" TERM; kill -TERM -1 2>/dev/null; exit 1
