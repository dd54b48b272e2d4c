"""The kernel log of this machine, by every way in which it can be read here."""

import os
import secrets
from pathlib import Path

import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw_agent.host.kmsg import DEVICE, Kmsg
from llmgw_agent.parse.log_lines import read_line
from llmgw_agent.probe.kernel_log import KernelLogProbe
from llmgw_agent.probe.log_sources import DmesgSource, JournalSource, log_sources


def say(words: str) -> None:
    """Write a line into the kernel log, as root may."""
    try:
        handle = os.open(DEVICE, os.O_WRONLY)
    except OSError as error:
        pytest.skip(f"no line can be written into the kernel log: {error}")
    try:
        # A line without its end may go on: nobody is given it until it does.
        os.write(handle, f"<6>{words}\n".encode())
    finally:
        os.close(handle)


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
async def test_what_is_written_between_two_readings_is_in_the_second(marked: str, kind):
    source = kind(SystemProcesses())
    try:
        await source.news()
    except LlmgwError as error:
        pytest.skip(error.message)
    say(marked)
    found = [line for text in await source.news() for line in text.splitlines() if marked in line]
    assert len(found) == 1
    line = read_line(found[0])
    assert line.text == marked
    assert line.when.at is not None
    assert abs(line.when.at - SystemClock().now()) < 60


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
