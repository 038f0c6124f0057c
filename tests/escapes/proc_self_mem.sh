# tries: change a read-only file through a private mapping of it
# stopped: what is written goes to a copy of the page
# control: no
# bare bwrap stops it: yes
python3 - <<"E"
import mmap, os
f = os.open(os.environ["OUTSIDE"] + "/f", os.O_RDONLY)
m = mmap.mmap(f, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
m.read(1)
maps = [l for l in open("/proc/self/maps") if "/outside/f" in l]
mem = os.open("/proc/self/mem", os.O_RDWR)
try: os.pwrite(mem, b"HACK", int(maps[0].split("-")[0], 16))
except OSError: pass
raise SystemExit(open(os.environ["OUTSIDE"] + "/f").read()[:4] != "HACK")
E
