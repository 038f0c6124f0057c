# tries: set an extended attribute outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
python3 -c 'import os; os.setxattr(os.environ["OUTSIDE"] + "/f", "user.x", b"y")'
