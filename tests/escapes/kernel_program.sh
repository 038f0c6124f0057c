# tries: load a program into the kernel
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
python3 - <<"E"
import ctypes
# BPF_PROG_LOAD of a program of no kind: whoever may load gets "invalid argument", whoever may not "not permitted".
attr = ctypes.create_string_buffer(128)
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(321, 5, attr, 128)
raise SystemExit(ctypes.get_errno() in (1, 38))
E
