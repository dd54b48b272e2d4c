#!/bin/sh
# From a checkout to a running llmgw: makes .venv from the lock files, compiles it, and runs.
#
#   ./install.sh demo [OPTIONS]   control plane, gateway, agent, a real engine and model, the console
#   ./install.sh test [OPTIONS]   everything that has to be green: lint, types, contracts, tests
#   ./install.sh venv             only make the environment; .venv/bin/llmgw is the program
set -eu

cd "$(dirname "$0")"
VENV="$PWD/.venv"

say() { printf '%s\n' "llmgw: $*" >&2; }
die() { say "$*"; exit 1; }

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; }

good_python() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null 2>&1 && good_python "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

# The stamp says from which locks the environment was made: another lock makes it anew.
stamp_of() { cat "$@" pyproject.toml | cksum | tr -d ' \n'; }

ready() {
    [ -x "$VENV/bin/python" ] && [ "$(cat "$VENV/.llmgw-stamp" 2>/dev/null)" = "$1" ] &&
        "$VENV/bin/python" -c 'import llmgw.cli.main' >/dev/null 2>&1
}

# Two at once would clear each other's work: the second waits on the checkout's own directory.
take_turns() {
    exec 9<"$PWD"
    if command -v flock >/dev/null 2>&1; then
        flock -n 9 || { say "waiting for another ./install.sh here"; flock 9; }
    fi
}

make_venv() {
    want=$(stamp_of "$@")
    ready "$want" && return 0
    take_turns
    ready "$want" || fill_venv "$@"
    exec 9<&-
}

fill_venv() {
    rm -f "$VENV/.llmgw-stamp"
    if python=$(find_python); then
        say "making .venv with $("$python" --version 2>&1)"
        "$python" -m venv --clear "$VENV" || die "could not make $VENV"
        for lock in "$@"; do
            "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" ||
                die "could not install $lock; is a package index reachable? (pip's own words are above)"
        done
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . ||
            die "could not install the checkout into .venv (pip's own words are above)"
    elif command -v uv >/dev/null 2>&1; then
        say "making .venv with $(uv --version)"
        uv venv --quiet --clear --seed --python '>=3.11' "$VENV" || die "could not make $VENV"
        for lock in "$@"; do
            uv pip install --quiet --python "$VENV/bin/python" --require-hashes -r "$lock" ||
                die "could not install $lock; is a package index reachable? (uv's own words are above)"
        done
        uv pip install --quiet --python "$VENV/bin/python" --no-deps --no-build-isolation --editable . ||
            die "could not install the checkout into .venv (uv's own words are above)"
    else
        die "needs python3 3.11 or newer with venv, or uv: install the package python3-venv (Debian, Ubuntu) or python3.11 (RHEL)"
    fi
    # Without bytecode the same command costs three times as much; pip and uv skip the checkout.
    "$VENV/bin/python" -m compileall -q -j 0 "$VENV/lib" llmgw agent tui proto >/dev/null 2>&1 || true
    printf '%s' "$want" >"$VENV/.llmgw-stamp"
}

command=${1:-help}
[ $# -gt 0 ] && shift
case $command in
demo)
    # An environment made for the tests serves the demo as well.
    if [ "$(cat "$VENV/.llmgw-stamp" 2>/dev/null)" = "$(stamp_of requirements/dev.lock)" ]; then
        make_venv requirements/dev.lock
    else
        make_venv requirements/run.lock requirements/build.lock
    fi
    exec "$VENV/bin/llmgw" demo "$@"
    ;;
test)
    make_venv requirements/dev.lock
    exec "$VENV/bin/python" -m tests.check "$@"
    ;;
venv)
    make_venv requirements/run.lock requirements/build.lock
    say "ready: $VENV/bin/llmgw"
    ;;
help | -h | --help)
    usage
    ;;
*)
    usage >&2
    say "unknown command: $command"
    exit 2
    ;;
esac
