"""Everything that has to be green, step by step: `python -m tests.check [STEP ...]`.

Every step is an ordinary command that can be run alone; the table at the end says how long each
took.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

STEPS: dict[str, list[str]] = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "imports": ["lint-imports", "--no-cache"],
    "types": ["mypy"],
    "cycles": ["basedpyright"],
    "proto": ["python", "proto/generate.py", "--check"],
    "docs": ["python", "docs/generate.py", "--check"],
    "unit": ["pytest", "tests/unit", "-q", "--durations=5", "-n", "2"],
    "flow": ["pytest", "tests/flow", "-q", "--durations=10", "-n", "2", "--dist", "loadfile"],
    "sim": ["pytest", "tests/sim", "-q", "--durations=5", "-n", "2"],
    "real": ["pytest", "tests/real", "-q", "--durations=15"],
}


def main() -> int:
    """Run the steps that were named, or all; stop at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", help=f"of: {', '.join(STEPS)}")
    asked = parser.parse_args().steps
    if unknown := [step for step in asked if step not in STEPS]:
        parser.error(f"unknown step: {', '.join(unknown)}")
    took: list[tuple[str, float, int]] = []
    for name in asked or STEPS:
        print(f"== {name}: {' '.join(STEPS[name])}", flush=True)
        begin = time.monotonic()
        rc = _run(STEPS[name])
        took.append((name, time.monotonic() - begin, rc))
        if rc:
            break
    for name, seconds, rc in took:
        print(f"{name:<8} {seconds:6.1f} s  {'ok' if rc == 0 else f'failed ({rc})'}")
    return max(rc for _, _, rc in took)


def _run(argv: list[str]) -> int:
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ.get('PATH', '')}"}
    # The tests start programs of their own, which would write bytecode beside the sources.
    return subprocess.run(argv, cwd=ROOT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
