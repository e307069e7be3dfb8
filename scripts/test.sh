#!/bin/sh
# Lint and tests: scripts/test.sh [TIER] [ARGUMENT OF PYTEST …]
#
# TIER is `lint` or a directory of tests/; without one, all of them run but the zoo, whose instants
# are random, and each is run even when another has failed. Tests of this host and of the virtual
# machine run as root.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

all="lint unit contract host vm"

main() {
    tiers=${1:-$all}
    [ $# -gt 0 ] && shift
    for tier in $tiers; do
        [ "$tier" = lint ] || [ -d "tests/$tier" ] || die "there is no tier '$tier': $all zoo"
    done
    set_up "$tiers"
    failed=
    for tier in $tiers; do
        say "$tier"
        run "$tier" "$@" || failed="$failed $tier"
    done
    [ -z "$failed" ] || die "failed:$failed"
}

set_up() {
    case " $1 " in
    *" vm "*) scripts/setup.sh vm ;;
    " zoo ") scripts/setup.sh zoo ;;
    " lint " | " unit ") scripts/setup.sh python ;;
    *) scripts/setup.sh host ;;
    esac
}

run() {
    tier=$1
    shift
    case $tier in
    lint) lint ;;
    unit) .venv/bin/pytest "tests/$tier" "$@" ;;
    *) as_root_leaving_nothing .venv/bin/pytest "tests/$tier" "$@" ;;
    esac
}

as_root_leaving_nothing() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        as_root env CI="${CI:-}" "$@" -p no:cacheprovider
    fi
}

lint() {
    result=0
    .venv/bin/ruff check . || result=1
    .venv/bin/ruff format --check . || result=1
    .venv/bin/mypy || result=1
    .venv/bin/lint-imports --no-logo || result=1
    return $result
}

main "$@"
