# tries: talk to hardware ports
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).iopl(3) != 0)"
