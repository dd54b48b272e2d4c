"""A filesystem that is really full, where this machine lets a test mount one."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"'


def in_small_filesystem(directory: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNT, str(directory), *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_full_filesystem_loses_nothing_that_was_acknowledged(tmp_path: Path):
    if shutil.which("unshare") is None or in_small_filesystem(tmp_path, "true").returncode:
        pytest.skip("this user may not mount a filesystem in a namespace of its own")
    filler = Path(__file__).parent / "filler.py"
    done = in_small_filesystem(tmp_path, sys.executable, str(filler), str(tmp_path))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    message, hint = seen["words"]
    assert "the disk is full; nothing was changed" in message
    assert hint.startswith("free space on the filesystem of ")
    assert seen["acknowledged"] == seen["kept"] > 20
    assert seen["audit"] is None
    assert (seen["after"], seen["more"]) == (seen["kept"] + 1, 1)
