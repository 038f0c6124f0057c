# Shared by ./try and ./check: what is missing is installed, or one line says why it can't be.

say() { printf '%s\n' "$*"; }

fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

need_rust() {
    command -v cargo >/dev/null 2>&1 || fail "a Rust toolchain (1.89 or later) is needed; Debian's package rustup installs one: rustup default stable"
}

need_component() {
    cargo "$(echo "$1" | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1 || {
        command -v rustup >/dev/null 2>&1 || fail "cargo $1 is missing; install that component of the Rust toolchain"
        say "Installing the Rust component $1."
        rustup component add "$1" || fail "the Rust component $1 can't be installed"
    }
}

# need_program PROGRAM PACKAGE REASON
need_program() {
    command -v "$1" >/dev/null 2>&1 && return
    command -v apt-get >/dev/null 2>&1 || fail "$1 is needed ($3); install your system's package for it (Debian: $2)"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || fail "$1 is needed ($3); as root: apt-get install $2"
        as_root=sudo
    fi
    say "Installing the Debian package $2: $3."
    # A first try without fresh lists is quicker, and works offline with a full cache.
    $as_root apt-get install -y -qq "$2" >/dev/null 2>&1 ||
        { $as_root apt-get update -qq >/dev/null 2>&1 && $as_root apt-get install -y -qq "$2" >/dev/null 2>&1; } ||
        fail "apt-get can't install $2; install it yourself and run this again"
}
