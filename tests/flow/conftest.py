"""What the tests of the flow share."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """Return a directory of an ordinary user, who the test is until its end."""
    path = Path(tempfile.mkdtemp(prefix="llmgw-nobody-"))
    root = os.geteuid() == 0
    if root:
        os.chown(path, NOBODY, -1)
        os.seteuid(NOBODY)
    yield path
    if root:
        os.seteuid(0)
    shutil.rmtree(path)
