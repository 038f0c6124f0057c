# tries: have Git filter files with a program
# stopped: a filter has to be in its configuration
# control: yes
# bare bwrap stops it: no
echo "* filter=x" > .gitattributes && git config filter.x.clean "touch planted"
