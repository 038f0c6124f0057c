# tries: exchange a file inside with one outside
# stopped: they are on different mounts
# control: yes
# bare bwrap stops it: yes
python3 -c "import ctypes, os; r = ctypes.CDLL(None).syscall(316, -100, b\"f\", -100, (os.environ[\"OUTSIDE\"] + \"/f\").encode(), 2); raise SystemExit(r != 0)"
