"""What is known of driver errors outlives the agent, and not the boot."""

from pathlib import Path

import msgspec
import pytest

from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.base.log import LogRing, setup
from llmgw.base.world import Done
from llmgw.model.device import Device, DeviceHealth, DeviceSample
from llmgw.model.node import Heartbeat, Inventory
from llmgw.model.record import Record
from llmgw_agent.host.small_file import FileText, ReadFile, WriteFile, Written
from llmgw_agent.parse.kernel_log import read
from llmgw_agent.probe.kernel_log import KernelLogProbe
from llmgw_agent.probe.log_sources import DmesgSource, JournalSource
from llmgw_agent.probe.xid_book import MOST_KEPT, CardSigns, XidBook
from llmgw_agent.probe.xid_memory import FILE, BookKept, XidMemory
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only

PATH = Path("/state") / FILE
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CARD = "0000:01:00"
RESET = "4,900,5000000,-;NVRM: Xid (PCI:0000:01:00): 48, pid=7, name=python, DBE\n"
HANG = RESET.replace("900,", "901,").replace(" 48,", " 119,")
DEVICE = Device(uuid="GPU-0", number=0, pci_address="00000000:01:00.0")


class Log:
    """A log that gives what is behind the place where its reading goes on."""

    period = period_without_cards = 10.0

    def __init__(self, records: list[str], name: str = "log") -> None:
        self.records = records
        self.name = name
        self.at = 0

    async def news(self) -> tuple[str, ...]:
        at, self.at = self.at, len(self.records)
        return tuple(self.records[at:])

    @property
    def position(self) -> str | None:
        return str(self.at)

    def resume(self, position: str) -> None:
        self.at = int(position)

    def close(self) -> None:
        pass


class Disk:
    """The state directory behind its helper."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.helper = FakeHelper(self.answer)
        self.broken: LlmgwError | None = None

    def answer(self, request: Record) -> Record | LlmgwError:
        if self.broken is not None:
            return self.broken
        if isinstance(request, WriteFile):
            assert request.path == str(PATH)
            self.text = request.text
            return Written()
        return NotFound("no such file") if self.text is None else FileText(text=self.text)

    @property
    def writes(self) -> int:
        return sum(isinstance(request, WriteFile) for request in self.helper.asked)


class Machine:
    """A machine on which agents are started one after the other."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.files = MemoryFiles()
        self.files.content[Path("/proc/uptime")] = b"3600.00 7000.00\n"
        self.files.content[BOOT_ID] = b"one-boot\n"
        self.disk = Disk()
        self.records: list[str] = []

    def start(self, name: str = "log", *, writes: bool = True) -> KernelLogProbe:
        memory = XidMemory(PATH, self.disk.helper, writes=writes)
        log = Log(self.records, name)
        return KernelLogProbe((log,), self.files, self.clock, memory)


@pytest.fixture
def machine(clock: FakeClock) -> Machine:
    return Machine(clock)


def beat(probe: KernelLogProbe, **report) -> dict[int, bool | None]:
    """Return by code whether an error is over, after a report on the card."""
    probe.onto_inventory(Inventory(devices=(DEVICE,)))
    health = (DeviceHealth(uuid="GPU-0", age=0.0, **report),) if report else None
    told = probe.onto_heartbeat(Heartbeat(sequence=1, health=health)).health
    return {xid.code: xid.cleared for xid in only(told).xids or ()}


async def cleared(machine: Machine) -> KernelLogProbe:
    """Start an agent that hears of an error and learns that it is over."""
    machine.records.append(RESET)
    first = machine.start()
    await first.read()
    assert beat(first) == {48: False}
    await machine.clock.advance(45)
    await first.read()
    assert beat(first, recovery_action="none") == {48: True}
    assert first.outdated, "what was learnt is kept at once, not with the next line of the log"
    await first.read()
    assert not first.outdated
    return first


async def test_an_error_that_was_over_is_over_after_a_restart(machine: Machine):
    await cleared(machine)
    second = machine.start()
    await second.read()
    device = only(second.onto_inventory(Inventory(devices=(DEVICE,))).devices)
    assert device.unhealthy == ()
    assert beat(second) == {48: True}


async def test_an_error_that_lasts_lasts_and_its_quiet_time_goes_on(machine: Machine):
    machine.records.append(HANG)
    await machine.start().read()
    await machine.clock.advance(590)
    second = machine.start()
    await second.read()
    assert beat(second, recovery_action="none") == {119: False}
    await machine.clock.advance(11)
    await second.read()
    assert beat(second, recovery_action="none") == {119: True}


async def test_what_comes_while_no_agent_runs_is_heard_of_and_counted_once(machine: Machine):
    await cleared(machine)
    machine.records.append(RESET)
    second = machine.start()
    await second.read()
    assert beat(second) == {48: False}
    health = second.onto_heartbeat(Heartbeat(sequence=2)).health
    assert only(only(health).xids).count == 2


async def test_a_reset_while_no_agent_runs_shows_in_counters_that_fell(machine: Machine):
    machine.records.append(HANG)
    first = machine.start()
    await first.read()
    assert beat(first, ecc_corrected_volatile=7) == {119: False}
    await first.read()
    await machine.clock.advance(40)
    second = machine.start()
    await second.read()
    await machine.clock.advance(5)
    assert beat(second, ecc_corrected_volatile=0) == {119: True}


async def test_counters_that_fell_meanwhile_do_not_end_an_error_heard_of_only_now(
    machine: Machine,
):
    machine.records.append(HANG)
    first = machine.start()
    await first.read()
    assert beat(first, ecc_corrected_volatile=7) == {119: False}
    await first.read()
    machine.records.append(RESET)
    await machine.clock.advance(40)
    second = machine.start()
    await second.read()
    await machine.clock.advance(5)
    assert beat(second, ecc_corrected_volatile=0) == {119: True, 48: False}


async def test_nothing_is_true_in_another_boot(machine: Machine):
    await cleared(machine)
    machine.files.content[BOOT_ID] = b"another\n"
    second = machine.start()
    await second.read()
    assert beat(second) == {48: False}


async def test_another_log_is_read_from_its_beginning(machine: Machine):
    await cleared(machine)
    second = machine.start("other")
    await second.read()
    assert beat(second) == {48: False}
    health = second.onto_heartbeat(Heartbeat(sequence=2)).health
    assert only(only(health).xids).count == 1


async def test_without_the_boots_id_nothing_is_kept(machine: Machine):
    del machine.files.content[BOOT_ID]
    await cleared(machine)
    assert machine.disk.helper.asked == []


async def test_it_is_written_when_something_changed_alone(machine: Machine):
    first = await cleared(machine)
    assert machine.disk.writes == 2  # the error, and that it is over
    machine.records.append("6,902,7000000,-;pci 0000:09:00.0: something else\n")
    for _ in range(3):
        await machine.clock.advance(10)
        await first.read()
        sample = DeviceSample(uuid="GPU-0", pcie_replays=int(machine.clock.monotonic()))
        health = DeviceHealth(uuid="GPU-0", age=0.0)
        first.onto_heartbeat(Heartbeat(sequence=1, devices=(sample,), health=(health,)))
    assert machine.disk.writes == 2
    assert machine.disk.helper.closed


async def test_a_machine_without_errors_writes_nothing(machine: Machine):
    machine.records.append("6,1,2000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.1\n")
    await machine.start().read()
    assert machine.disk.writes == 0


async def test_a_look_reads_what_is_known_and_writes_nothing(machine: Machine):
    await cleared(machine)
    machine.records.append(HANG)
    look = machine.start(writes=False)
    await look.read()
    assert beat(look) == {48: True, 119: False}
    assert machine.disk.writes == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"boot": 1}', "\0"])
async def test_a_file_that_is_damaged_is_one_line_and_the_boot_is_read_anew(
    machine: Machine, text: str
):
    ring = LogRing()
    setup("agent", level="info", ring=ring)
    await cleared(machine)
    machine.disk.text = text
    second = machine.start()
    await second.read()
    assert beat(second) == {48: False}
    lines = [line for line in ring.tail(50) if "driver errors can't be read" in line]
    assert len(lines) == 1
    assert machine.disk.text != text


@pytest.mark.parametrize("broken", [silent(ReadFile(path="")), Refused("read-only")])
async def test_a_directory_that_fails_costs_no_reading(machine: Machine, broken: LlmgwError):
    machine.disk.broken = broken
    machine.records.append(RESET)
    probe = machine.start()
    for _ in range(2):
        assert await probe.read() == "log: 1 card needs somebody"
    machine.disk.broken = None
    await probe.read()
    assert machine.disk.text is not None


def test_a_book_is_as_it_was_and_too_large_a_one_is_not_kept():
    book = XidBook()
    for number, text in enumerate((RESET, HANG, RESET)):
        for event in read(text):
            book.take(event, 1000.0 + number, 5.0 + number)
    book.learn(CARD, CardSigns(read_at=9.0, since_reset=(3, None)))
    kept = book.kept()
    assert kept is not None
    again = XidBook()
    again.restore(msgspec.json.decode(msgspec.json.encode(kept), type=BookKept), 100.0)
    assert again.kept() == kept
    assert again.xids(CARD) == book.xids(CARD)
    assert again.reasons(CARD) == book.reasons(CARD)
    for number in range(MOST_KEPT):
        text = RESET.replace("0000:01", f"{number // 64:04x}:02").replace("48", str(number % 64))
        for event in read(text):
            book.take(event, None, 0.0)
    assert book.kept() is None


async def test_journal_and_dmesg_go_on_where_they_were():
    line = "2025-01-17T17:10:43+0000 n1 kernel: NVRM: x\n"
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = lambda argv: Done(0, f"{line}-- cursor: s=1;i=2\n", "")
    first = JournalSource(processes)
    await first.news()
    second = JournalSource(processes)
    second.resume(first.position or "")
    await second.news()
    assert "--after-cursor=s=1;i=2" in processes.ran[-1]
    processes.on_run = lambda argv: Done(0, "a\nb\n", "")
    before, after = DmesgSource(processes), DmesgSource(processes)
    await before.news()
    after.resume(before.position or "")
    assert await after.news() == ()
    processes.on_run = lambda argv: Done(0, f"{'x' * 5000}\n", "")
    await before.news()
    assert before.position is None
