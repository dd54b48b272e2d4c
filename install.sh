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

# What an environment holds: dev.lock has the pins of the other two, and more.
RUN="requirements/run.lock requirements/build.lock"
DEV="requirements/dev.lock"

# The stamp says from which locks the environment was made: another lock makes it anew.
stamp_of() { cat "$@" pyproject.toml | cksum | tr -d ' \n'; }

stamped() { [ "$(cat "$VENV/.llmgw-stamp" 2>/dev/null)" = "$(stamp_of "$@")" ]; }

ready() {
    [ -x "$VENV/bin/python" ] && stamped "$@" &&
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
    ready "$@" && return 0
    take_turns
    ready "$@" || fill_venv "$@"
    exec 9<&-
}

fill_venv() {
    want=$(stamp_of "$@")
    if python=$(find_python); then
        tool=pip
    elif command -v uv >/dev/null 2>&1; then
        tool=uv
    else
        die "needs python3 3.11 or newer with venv, or uv: install the package python3-venv (Debian, Ubuntu) or python3.11 (RHEL)"
    fi
    # shellcheck disable=SC2086
    if ready $RUN; then
        # Nothing that is there changes, so what runs from it runs on.
        say "adding to .venv what the tests need"
        put_locks "$@"
    else
        clear_venv
        put_locks "$@"
        put --no-deps --no-build-isolation --editable . ||
            die "could not install the checkout into .venv ($tool's own words are above)"
    fi
    # Without bytecode the same command costs three times as much; pip and uv skip the checkout.
    "$VENV/bin/python" -m compileall -q -j 0 "$VENV/lib" llmgw agent tui proto >/dev/null 2>&1 || true
    printf '%s' "$want" >"$VENV/.llmgw-stamp"
}

clear_venv() {
    refuse_while_used
    rm -f "$VENV/.llmgw-stamp"
    if [ "$tool" = pip ]; then
        say "making .venv with $("$python" --version 2>&1)"
        "$python" -m venv --clear "$VENV" || die "could not make $VENV"
    else
        say "making .venv with $(uv --version)"
        uv venv --quiet --clear --seed --python '>=3.11' "$VENV" || die "could not make $VENV"
    fi
}

# A demo would lose the programs that it has yet to start: what runs from .venv has it mapped.
refuse_while_used() {
    [ -d "$VENV" ] || return 0
    used=$(grep -lsF "$(pwd -P)/.venv/" /proc/[0-9]*/maps | sed 's|[^0-9]||g' | tr '\n' ' ')
    [ -z "$used" ] ||
        die ".venv is not what the lock files and pyproject.toml say, and can't be made anew while it is in use: end what runs from it (process ${used% })"
}

put_locks() {
    for lock in "$@"; do
        put --require-hashes -r "$lock" ||
            die "could not install $lock; is a package index reachable? ($tool's own words are above)"
    done
}

put() {
    if [ "$tool" = pip ]; then
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    else
        uv pip install --quiet --python "$VENV/bin/python" "$@"
    fi
}

# An environment made for the tests serves all else as well.
make_run_venv() {
    # shellcheck disable=SC2086
    if stamped $DEV; then make_venv $DEV; else make_venv $RUN; fi
}

command=${1:-help}
[ $# -gt 0 ] && shift
case $command in
demo)
    make_run_venv
    exec "$VENV/bin/llmgw" demo "$@"
    ;;
test)
    make_venv "$DEV"
    exec "$VENV/bin/python" -m tests.check "$@"
    ;;
venv)
    make_run_venv
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
