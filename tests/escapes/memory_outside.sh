# tries: read the memory of a process outside
# stopped: it has no pid in here
# control: yes
# bare bwrap stops it: yes
python3 - <<"E"
import ctypes, os
class V(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
buf = ctypes.create_string_buffer(8)
# Where to read does not matter: a process that is there answers with "bad address" at worst.
r = ctypes.CDLL(None, use_errno=True).process_vm_readv(int(os.environ["HOST_PID"]), ctypes.byref(V(ctypes.addressof(buf), 8)), 1, ctypes.byref(V(4096, 8)), 1, 0)
raise SystemExit(r < 0 and ctypes.get_errno() != 14)
E
