# tries: use a descriptor that was inherited
# stopped: only the three standard streams are open
# control: no
# bare bwrap stops it: yes
python3 -c 'import os; extra = [n for n in os.listdir("/proc/self/fd") if int(n) > 2 and not os.readlink("/proc/self/fd/" + n).endswith("/fd")]; raise SystemExit(not extra)'
