# tries: take a handle on a process outside
# stopped: it has no pid in here
# control: yes
# bare bwrap stops it: yes
python3 -c "import os; os.pidfd_open(int(os.environ[\"HOST_PID\"]))"
