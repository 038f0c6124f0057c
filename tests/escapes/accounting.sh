# tries: have the kernel write down every process
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).acct(b\"f\") != 0)"
