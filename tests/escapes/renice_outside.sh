# tries: slow a process outside down
# stopped: it has no pid in here
# control: yes
# bare bwrap stops it: yes
python3 -c "import os; os.setpriority(os.PRIO_PROCESS, int(os.environ[\"HOST_PID\"]), os.getpriority(os.PRIO_PROCESS, int(os.environ[\"HOST_PID\"])))"
