"""Standard output that takes nothing: one line, exit code 1, for every command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents import python_path

ROOT = Path(__file__).parents[3]
FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def run(*argv: str, state: Path, out: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "llmgw", *argv],
        env={"PATH": "/usr/bin:/bin", "HOME": str(state), "PYTHONPATH": python_path()},
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("version",),
        ("--help",),
        ("parse", "--list"),
        ("parse", "rapl", str(ROOT / "tests/fixtures/rapl/intel-rapl.tsv")),
        ("completion", "bash"),
        ("agent", "--look"),
    ],
)
def test_a_full_device_is_told_in_one_line(argv: tuple[str, ...], tmp_path: Path):
    with FULL.open("w") as full:
        done = run(*argv, state=tmp_path, out=full.fileno())
    assert done.stderr == "llmgw: can't be written: No space left on device\n"
    assert done.returncode == 1


def test_a_reader_that_left_is_no_error_to_be_told(tmp_path: Path):
    readable, writable = os.pipe()
    os.close(readable)
    try:
        done = run("version", state=tmp_path, out=writable)
    finally:
        os.close(writable)
    assert (done.stderr, done.returncode) == ("", 1)
