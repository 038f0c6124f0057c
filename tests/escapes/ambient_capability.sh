# tries: hand a capability on to programs
# stopped: there is none to hand on
# control: no
# bare bwrap stops it: yes
python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).prctl(47, 2, 21, 0, 0) != 0)"
