# tries: type into the caller's terminal
# stopped: there is none
# control: no
# bare bwrap stops it: yes
python3 -c 'import fcntl, termios; fcntl.ioctl(open("/dev/tty", "w"), termios.TIOCSTI, b"x")'
