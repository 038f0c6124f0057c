# tries: teach the user's Git an alias that runs a program
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
git config --global alias.st "!touch planted"
