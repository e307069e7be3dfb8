# Functions for the scripts beside it: sourced, not run.

say() {
    printf 'outgrow: %s\n' "$*" >&2
}

die() {
    say "$*"
    exit 1
}

# Run a command as root: itself when we are root, by sudo otherwise. What root writes into somebody
# else's checkout, she could not remove: so no bytecode then.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        say "as root, by sudo: $*"
        sudo env PYTHONDONTWRITEBYTECODE=1 "$@"
    else
        die "this needs root, and there is no sudo here: $*"
    fi
}

# Whether there is such a program; root's are not on everybody's PATH.
there_is() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null
}

# Install Debian packages, saying why: install_packages "why" PACKAGE…
install_packages() {
    why=$1
    shift
    say "installing $* with apt-get: $why"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
        say "apt-get update had errors; trying with the lists that there are"
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install --yes --no-install-recommends "$@" >/dev/null
}
