# tries: drown the reader in output
# stopped: head and tail are kept, in bounded memory
# control: no
# bare bwrap stops it: yes
head -c 100000000 /dev/zero | tr "\0" x; exit 1
