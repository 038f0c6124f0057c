# tries: put a program before the system's in PATH
# stopped: PATH never leads into the workspace
# control: yes
# bare bwrap stops it: yes
mkdir -p bin && printf "#!/bin/sh\nexit 0\n" > bin/git && chmod +x bin/git && test "$(command -v git)" = "$PWD/bin/git"
