# tries: make another folder the root
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
mkdir -p r/old && python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(155, b\"r\", b\"r/old\") != 0)"
