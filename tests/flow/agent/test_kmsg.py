"""The kernel's log device, by a file and a pipe in its place."""

import os
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw_agent.host.kmsg import Kmsg


def test_a_machine_without_the_device_says_so(tmp_path: Path):
    with pytest.raises(NotFound, match="no such device"):
        Kmsg((b"NVRM",), tmp_path / "kmsg").read(10)


def test_a_device_that_gives_an_error_says_so_and_is_opened_anew(tmp_path: Path):
    kmsg = Kmsg((b"NVRM",), tmp_path)
    for _ in range(2):
        with pytest.raises(Unreadable, match="Is a directory"):
            kmsg.read(10)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_user_who_may_not_read_it_is_refused(tmp_path: Path):
    device = tmp_path / "kmsg"
    device.touch(mode=0o000)
    with pytest.raises(Refused, match="may not read it"):
        Kmsg((b"NVRM",), device).read(10)


def test_what_nobody_asked_for_is_left_out_and_nothing_is_waited_for(tmp_path: Path):
    device = tmp_path / "kmsg"
    os.mkfifo(device)
    kmsg = Kmsg((b"NVRM: ",), device)
    assert (kmsg.read(10), kmsg.at_end) == ("", True)
    writer = os.open(device, os.O_WRONLY)
    try:
        assert (kmsg.read(10), kmsg.at_end) == ("", True)
        os.write(writer, b"6,1,5,-;usb 1-4: new device\n")
        assert (kmsg.read(1), kmsg.at_end) == ("", False)
        os.write(writer, b"4,2,6,-;NVRM: Xid\n")
        assert (kmsg.read(1), kmsg.at_end) == ("4,2,6,-;NVRM: Xid\n", False)
        assert (kmsg.read(1), kmsg.at_end) == ("", True)
    finally:
        os.close(writer)
    kmsg.close()
    kmsg.close()


def fed(device: Path, *records: bytes) -> int:
    """Return a writer that put records into a pipe: each write is read as one record."""
    writer = os.open(device, os.O_RDWR | os.O_NONBLOCK)
    for record in records:
        os.write(writer, record)
    return writer


def test_a_record_that_was_read_before_is_not_read_again(tmp_path: Path):
    device = tmp_path / "kmsg"
    os.mkfifo(device)
    kmsg = Kmsg((b"NVRM: ",), device)
    kmsg.last = 7
    kmsg.read(1)
    writer = fed(device, b"4,7,6,-;NVRM: Xid\n")
    assert kmsg.read(1) == ""
    os.write(writer, b"4,8,6,-;NVRM: Xid\n")
    assert kmsg.read(1) == "4,8,6,-;NVRM: Xid\n"
    kmsg.close()  # as after an error: the device is read from the boot on then
    kmsg.read(1)
    os.write(writer, b"4,8,6,-;NVRM: Xid\n")
    assert (kmsg.read(1), kmsg.last) == ("", 8)
    os.close(writer)
    kmsg.close()
