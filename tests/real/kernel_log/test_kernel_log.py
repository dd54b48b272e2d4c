"""The kernel log of this machine, by every way in which it can be read here."""

import ctypes
import errno
import os
import secrets
from pathlib import Path

import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.model.node import Inventory
from llmgw_agent.host.kmsg import DEVICE, Kmsg
from llmgw_agent.parse.log_lines import read_line
from llmgw_agent.probe.kernel_log import KernelLogProbe
from llmgw_agent.probe.log_sources import DmesgSource, JournalSource, log_sources
from tests.only import only

NOBODYS = "fffe:fe:1e"
"""Where no machine has a card."""


def say(words: str) -> None:
    """Write a line into the kernel log, as a program: root may."""
    try:
        handle = os.open(DEVICE, os.O_WRONLY)
    except OSError as error:
        pytest.skip(f"no line can be written into the kernel log: {error}")
    try:
        # A line without its end may go on: nobody is given it until it does.
        os.write(handle, f"<6>{words}\n".encode())
    finally:
        os.close(handle)


def let_the_kernel_say(word: str) -> None:
    """Make the kernel itself name a word: of a mount that it refuses it names the option."""
    mount = ctypes.CDLL(None, use_errno=True).mount
    if mount(b"none", b"/proc/self/fd", b"tmpfs", 0, word.encode()) == 0:
        pytest.fail("a mount with an option that nobody knows was done")
    if ctypes.get_errno() != errno.EINVAL:
        pytest.skip(f"may not mount: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def marked() -> str:
    """Return a word that a line of the log has, and that no driver writes."""
    return f"llmgw-test-{secrets.token_hex(8)}"


def test_records_of_the_device_come_once_each_and_none_is_waited_for(marked: str):
    kmsg = Kmsg((marked.encode(),))
    say(f"{marked} first")
    try:
        first = _all(kmsg)
    except (NotFound, Refused) as error:
        pytest.skip(error.message)
    assert read_line(first.splitlines()[0]).text == f"{marked} first"
    assert _all(kmsg) == ""
    say(f"{marked} second")
    assert read_line(_all(kmsg).splitlines()[0]).text == f"{marked} second"
    kmsg.close()


def test_the_time_of_a_record_is_that_at_which_it_was_written(marked: str):
    kmsg = Kmsg((marked.encode(),))
    say(marked)
    try:
        since_boot = read_line(_all(kmsg).splitlines()[0]).when.since_boot
    except (NotFound, Refused) as error:
        pytest.skip(error.message)
    up = float(Path("/proc/uptime").read_text().split()[0])
    assert since_boot is not None
    assert abs(up - since_boot) < 5
    kmsg.close()


@pytest.mark.parametrize("kind", [DmesgSource, JournalSource])
async def test_what_the_kernel_says_between_two_readings_is_in_the_second(marked: str, kind):
    source = kind(SystemProcesses())
    try:
        await source.news()
    except LlmgwError as error:
        pytest.skip(error.message)
    say(f"{marked} by a program")
    let_the_kernel_say(marked)
    found = [line for text in await source.news() for line in text.splitlines() if marked in line]
    line = read_line(only(found))
    assert line.text == f"tmpfs: Unknown parameter '{marked}'"
    assert line.when.at is not None
    assert abs(line.when.at - SystemClock().now()) < 60


def test_a_record_of_the_device_tells_whether_the_kernel_said_it(marked: str):
    kmsg = Kmsg((marked.encode(),))
    say(marked)
    let_the_kernel_say(marked)
    try:
        records = [read_line(line) for line in _all(kmsg).splitlines() if marked in line]
    except (NotFound, Refused) as error:
        pytest.skip(error.message)
    assert [record.by_kernel for record in records] == [False, True]
    kmsg.close()


async def test_no_program_can_tell_of_a_card_through_the_log():
    say(f"NVRM: Xid (PCI:{NOBODYS}): 79, pid=1, name=x, GPU has fallen off the bus.")
    probe = KernelLogProbe(log_sources(SystemProcesses()), SystemFiles(), SystemClock())
    assert "needs somebody" not in await probe.read()
    assert not probe.onto_inventory(Inventory(devices=())).warnings
    await probe.close()


async def test_the_probe_reads_this_machines_log_or_says_why_not():
    probe = KernelLogProbe(log_sources(SystemProcesses()), SystemFiles(), SystemClock())
    sentence = await probe.read()
    assert sentence
    assert await probe.read() == sentence
    await probe.close()


def _all(kmsg: Kmsg) -> str:
    found = kmsg.read(1000)
    while not kmsg.at_end:
        found += kmsg.read(1000)
    return found
