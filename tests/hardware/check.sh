#!/usr/bin/env bash
# Check every reader on this machine, in five minutes, and change nothing on it.
#
#   tests/hardware/check.sh [DIR]
#
# What the tools print is kept in DIR (default: ./hardware-check), with what was read of it beside.
# It holds serial numbers, UUIDs and addresses of this machine: look through it before you send it.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=.venv/bin/python
if [ ! -x "$python" ]; then
    echo "no .venv here: run ./install.sh venv first" >&2
    exit 2
fi
exec env PYTHONPATH=".:agent:proto:tui" "$python" -m tests.hardware.check "$@"
