# tries: attach to a process outside
# stopped: it has no pid in here
# control: no
# bare bwrap stops it: yes
python3 -c 'import ctypes, os; libc = ctypes.CDLL(None); r = libc.ptrace(16, int(os.environ["HOST_PID"]), 0, 0); raise SystemExit(r != 0)'
