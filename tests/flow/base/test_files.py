"""Files of this machine: none is read without end, and none is waited for."""

import os
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.system import SystemFiles
from llmgw.base.world import FILE_MOST


def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("wb") as out:
        out.truncate(FILE_MOST)
    assert len(SystemFiles().read(file)) == FILE_MOST
    with file.open("ab") as out:
        out.write(b"x")
    with pytest.raises(Unreadable, match=r"file: more than 16 MiB$"):
        SystemFiles().read(file)
    assert SystemFiles().read_part(file, FILE_MOST, 10) == b"x"
    assert SystemFiles().read_part(file, 0, 3) == b"\0\0\0"


def test_a_device_without_end_is_not_read_to_it() -> None:
    with pytest.raises(Unreadable, match="/dev/zero: more than 16 MiB"):
        SystemFiles().read(Path("/dev/zero"))


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert SystemFiles().read(tmp_path / "pipe") == b""
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(BlockingIOError):
            SystemFiles().read(tmp_path / "pipe")
    finally:
        os.close(writer)


def test_files_of_the_kernel_are_read_and_missing_ones_told(tmp_path: Path) -> None:
    assert b"MemTotal" in SystemFiles().read(Path("/proc/meminfo"))
    with pytest.raises(NotFound, match="no such file"):
        SystemFiles().read(tmp_path / "x")
    with pytest.raises(NotFound, match="no such file"):
        SystemFiles().read(Path("/proc/meminfo/x"))
