#!/bin/sh
# Starts a Docker daemon for the tests, without a network of its own, and makes their images. Prints its socket. Its pid is in
# DIR/pid; whoever starts it ends it. Usage: docker-for-tests.sh DIR
set -eu
dir=$1
mkdir -p "$dir"
dockerd --iptables=false --ip6tables=false --bridge=none --data-root "$dir/data" --exec-root "$dir/exec" \
    -H "unix://$dir/docker.sock" --pidfile "$dir/pid" >"$dir/log" 2>&1 &
n=0
until docker -H "unix://$dir/docker.sock" version >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 300 ] || { echo "the Docker daemon does not start:" >&2; tail -n 5 "$dir/log" >&2; exit 1; }
    sleep 0.1
done
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
debootstrap --variant=minbase --include=bubblewrap,socat "$suite" "$dir/root" >"$dir/debootstrap.log" 2>&1 ||
    { echo "debootstrap failed:" >&2; tail -n 5 "$dir/debootstrap.log" >&2; exit 1; }
tar -C "$dir/root" -c . | docker -H "unix://$dir/docker.sock" import - sid-test >/dev/null
rm -f "$dir/root/usr/bin/bwrap" "$dir/root/usr/bin/socat"* 
tar -C "$dir/root" -c . | docker -H "unix://$dir/docker.sock" import - sid-test-bare >/dev/null
rm -rf "$dir/root"
echo "$dir/docker.sock"
