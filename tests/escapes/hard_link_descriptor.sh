# tries: link an open file from outside into the workspace
# stopped: a link can't cross mounts
# control: yes
# bare bwrap stops it: yes
python3 -c "import ctypes, os; f = os.open(os.environ[\"OUTSIDE\"] + \"/f\", os.O_RDONLY); r = ctypes.CDLL(None).linkat(-100, b\"/proc/self/fd/%d\" % f, -100, b\"linked\", 0x400); raise SystemExit(r != 0)" && echo x > linked
