# tries: write with openat from a folder outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
python3 -c 'import os; d = os.open(os.environ["OUTSIDE"], os.O_RDONLY); os.write(os.open("f", os.O_WRONLY | os.O_TRUNC, dir_fd=d), b"x")'
