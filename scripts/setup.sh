#!/bin/sh
# Sets up this checkout: scripts/setup.sh [python | host | vm | zoo]
#
#   python  a virtual environment in .venv, with locked dependencies
#   host    and a CRIU that works here, with what it needs (the default)
#   vm      and what the tests' virtual machine is made with
#   zoo     instead of that, programs for tests/zoo; of those that cannot be had, the tests are skipped
#
# It can be repeated, and takes a moment when there is nothing to do. $PYTHON names the Python to
# use; without it, the newest one from 3.11 on that can make virtual environments.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

stamps=.venv/outgrow-setup

main() {
    what=${1:-host}
    case $what in
    python | host | vm | zoo) ;;
    *) die "scripts/setup.sh knows python, host, vm and zoo, not '$what'" ;;
    esac
    python_environment
    [ "$what" = python ] && return
    network_lock
    .venv/bin/python scripts/setup_criu.py "$stamps/criu"
    case $what in
    vm) virtual_machine ;;
    zoo) zoo ;;
    esac
}

python_environment() {
    if usable .venv/bin/python && [ "$(cat $stamps/python 2>/dev/null)" = "$(python_key)" ]; then
        return
    fi
    if ! usable .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(find_python) || { install_python && python=$(find_python); } ||
            die "outgrow needs Python 3.11 or newer with its modules venv and ensurepip"
        say "making a virtual environment in .venv with $("$python" -V)"
        "$python" -m venv --clear .venv
    fi
    say "installing locked dependencies into .venv"
    pip_install --require-hashes -r requirements.lock -r requirements-dev.lock
    pip_install --no-build-isolation --no-deps -e .
    mkdir -p $stamps
    python_key >$stamps/python
}

# What the environment was made from: the place counts, for its scripts name it.
python_key() {
    {
        pwd
        .venv/bin/python -V
        cat requirements.lock requirements-dev.lock pyproject.toml scripts/setup.sh
    } | sha256sum
}

usable() {
    there_is "$1" && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for name in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3}; do
        if usable "$name" && "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

install_python() {
    if ! there_is apt-get; then
        say "there is no apt-get here: install a Python from 3.11 on, with venv and ensurepip"
        return 1
    fi
    install_packages "outgrow runs in a Python environment of its own" \
        python3 python3-venv ca-certificates
}

pip_install() {
    .venv/bin/python -m pip install -qq --disable-pip-version-check \
        --root-user-action=ignore "$@"
}

network_lock() {
    there_is iptables && return
    why="CRIU stops a job's TCP connections with it while it saves them"
    if there_is apt-get; then
        install_packages "$why" iptables || say "without iptables: jobs with connections stay"
    else
        say "there is no iptables here; please install it: $why"
    fi
}

virtual_machine() {
    packages=$(.venv/bin/python scripts/vm_packages.py)
    [ -z "$packages" ] && return
    why="the tests' virtual machine is made and run with them"
    if there_is apt-get; then
        # shellcheck disable=SC2086  # several words
        install_packages "$why" $packages
    else
        say "please install what Debian has in these packages: $packages ($why)"
    fi
}

zoo() {
    if ! there_is redis-server && ! there_is redis-check-rdb; then
        why="the server without its service, for tests/zoo"
        { there_is apt-get && install_packages "$why" redis-tools; } ||
            say "without redis-server its tests are skipped"
    fi
    [ "$(cat $stamps/zoo 2>/dev/null)" = "$(zoo_key)" ] && return
    say "installing locked packages for tests/zoo into .venv (some 60 MB)"
    if pip_install --require-hashes -r requirements-zoo.lock; then
        zoo_key >$stamps/zoo
    else
        say "without scikit-learn its tests are skipped"
    fi
}

zoo_key() {
    cat $stamps/python requirements-zoo.lock | sha256sum
}

main "$@"
