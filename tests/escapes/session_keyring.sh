# tries: read a key of the user's session keyring
# stopped: the sandbox has one of its own
# control: yes
# bare bwrap stops it: no
python3 - <<"E"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
# KEYCTL_SEARCH in the session keyring.
r = libc.syscall(250, 10, -3, b"user", os.environ["MARK"].encode(), 0)
raise SystemExit(r < 0)
E
