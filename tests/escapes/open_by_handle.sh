# tries: open a file by its handle, past all mounts
# stopped: no capabilities
# control: no
# bare bwrap stops it: yes
python3 - <<"E"
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
mount = ctypes.c_int()
d = os.open(os.environ["OUTSIDE"], os.O_RDONLY)
if libc.name_to_handle_at(d, b"f", handle, ctypes.byref(mount), 0): raise SystemExit(1)
fd = libc.open_by_handle_at(d, handle, os.O_WRONLY)
raise SystemExit(fd < 0 or os.write(fd, b"x") != 1)
E
