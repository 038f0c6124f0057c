# tries: write a file outside through shared memory
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
python3 -c "import mmap, os; f = os.open(os.environ[\"OUTSIDE\"] + \"/f\", os.O_RDWR); m = mmap.mmap(f, 4); m[0:4] = b\"HACK\""
