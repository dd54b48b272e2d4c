"""The source of driver errors: where it reads, what it adds to devices, what a card needs."""

import asyncio
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw.model.device import MIG, Device, DeviceHealth, DeviceSample
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.probe.kernel_log import KernelLogProbe
from llmgw_agent.probe.log_sources import DmesgSource, JournalSource
from tests.fakes.clock import FakeClock
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only

LOST = "4,900,5000000,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
CRASH = "4,901,6000000,-;NVRM: Xid (PCI:0000:01:00): 13, pid=7, name=python, Graphics Exception\n"
WORDS = "XID 79 (fell off the bus) at 2027-01-15 08:00 UTC: reboot the machine"


class FakeSource:
    """A log that gives what the test puts, or fails."""

    def __init__(self, name: str = "log") -> None:
        self.name = name
        self.period, self.period_without_cards = 10.0, 20.0
        self.answers: list[str | LlmgwError] = []
        self.asked = 0
        self.closed = False
        self.position: str | None = None
        self.resumed: list[str] = []

    async def news(self) -> tuple[str, ...]:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else ""
        if isinstance(answer, LlmgwError):
            raise answer
        self.position = f"{self.name} {self.asked}"
        return (answer,) if answer else ()

    def resume(self, position: str) -> None:
        self.resumed.append(position)

    def close(self) -> None:
        self.closed = True


def card(number: int = 0, pci: str = "00000000:01:00.0", **said) -> Device:
    return Device(uuid=f"GPU-{number}", number=number, pci_address=pci, **said)


def inventory(*devices: Device) -> Inventory:
    return Inventory(devices=devices)


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.content[Path("/proc/uptime")] = b"3600.00 7000.00\n"
    return files


@pytest.fixture
def probe(source: FakeSource, files: MemoryFiles, clock: FakeClock) -> KernelLogProbe:
    return KernelLogProbe((source,), files, clock)


async def test_a_card_off_the_bus_is_unhealthy_and_says_what_to_do(probe, source):
    source.answers = [LOST]
    assert await probe.read() == "log: 1 card needs somebody"
    device = only(probe.onto_inventory(inventory(card())).devices)
    # The machine was started an hour before 08:00, and the line is of its sixth second.
    assert device.unhealthy == (WORDS.replace("08:00", "07:00"),)


async def test_an_applications_error_is_told_and_leaves_the_device_healthy(probe, source, clock):
    source.answers = [CRASH + CRASH]
    assert await probe.read() == "log: no card needs anything"
    device = only(probe.onto_inventory(inventory(card())).devices)
    assert device.unhealthy == ()
    await clock.advance(4)
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert (health.uuid, health.age) == ("GPU-0", None)
    xid = only(health.xids)
    assert (xid.code, xid.count, xid.action, xid.cleared) == (13, 2, "restart_application", True)
    assert xid.last_seen == pytest.approx(1_800_000_000.0 - 3600 + 6)


async def test_a_card_without_errors_has_none_which_is_not_unknown(probe, source):
    await probe.read()
    probe.onto_inventory(inventory(card()))
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert health.xids == ()


async def test_reasons_of_others_stay_and_instances_share_their_cards(probe, source):
    source.answers = [LOST]
    await probe.read()
    hot = card(0, unhealthy=("too hot",))
    slice_ = Device(uuid="MIG-1", kind=MIG, card_uuid="GPU-0", pci_address="00000000:01:00.0")
    other = card(1, "00000000:02:00.0")
    found = probe.onto_inventory(inventory(hot, slice_, other)).devices or ()
    words = WORDS.replace("08:00", "07:00")
    assert [one.unhealthy for one in found] == [("too hot", words), (words,), ()]


async def test_an_error_of_a_card_that_nobody_lists_is_a_warning_of_the_node(probe, source):
    source.answers = [LOST + CRASH.replace("01:00", "05:00")]
    await probe.read()
    warning = only(probe.onto_inventory(inventory(card(1, "00000000:02:00.0"))).warnings)
    assert warning.subject == "gpu"
    assert warning.words.startswith("the card at 0000:01:00, not listed by the driver: XID 79 (")


async def test_a_node_that_has_not_said_its_devices_is_left_alone(probe, source):
    source.answers = [LOST]
    await probe.read()
    assert probe.onto_inventory(Inventory()) == Inventory()


async def test_a_report_after_the_error_makes_the_card_healthy_again(probe, source, clock):
    source.answers = [LOST]
    await probe.read()
    probe.onto_inventory(inventory(card()))
    await clock.advance(90)
    report = DeviceHealth(uuid="GPU-0", recovery_action="none", age=50.0)
    beat = Heartbeat(sequence=1, health=(report,))
    await probe.read()
    health = only(probe.onto_heartbeat(beat).health)
    assert [one.cleared for one in health.xids or ()] == [True]
    assert (health.recovery_action, health.age) == ("none", 50.0)
    device = only(probe.onto_inventory(inventory(card())).devices)
    assert device.unhealthy == ()


async def test_pcie_replays_that_begin_anew_show_a_reset(probe, source, clock):
    source.answers = [LOST]
    await probe.read()
    probe.onto_inventory(inventory(card()))
    for replays in (5, 0):
        await clock.advance(40)
        beat = Heartbeat(
            sequence=1,
            devices=(DeviceSample(uuid="GPU-0", pcie_replays=replays),),
            health=(DeviceHealth(uuid="GPU-0", age=1.0),),
        )
        probe.onto_heartbeat(beat)
    device = only(probe.onto_inventory(inventory(card())).devices)
    assert device.unhealthy == ()


@pytest.mark.parametrize(("report", "told"), [(1.0, 4.0), (75.0, 75.0)])
async def test_the_log_makes_no_health_look_younger_than_it_is(probe, clock, report, told):
    await probe.read()
    probe.onto_inventory(inventory(card()))
    await clock.advance(4)
    beat = Heartbeat(sequence=1, health=(DeviceHealth(uuid="GPU-0", age=report),))
    health = only(probe.onto_heartbeat(beat).health)
    assert (health.xids, health.age) == ((), told)


async def test_a_reading_older_than_a_minute_is_not_told(probe, source, clock):
    source.answers = [CRASH]
    await probe.read()
    probe.onto_inventory(inventory(card()))
    await clock.advance(61)
    assert probe.onto_heartbeat(Heartbeat(sequence=1)) == Heartbeat(sequence=1)


async def test_without_an_uptime_errors_have_no_time(source, clock):
    probe = KernelLogProbe((source,), MemoryFiles(), clock)
    source.answers = [CRASH]
    await probe.read()
    probe.onto_inventory(inventory(card()))
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert [one.last_seen for one in health.xids or ()] == [None]


async def test_the_first_log_that_may_be_read_is_kept_to(files, clock):
    first, second = FakeSource("first"), FakeSource("second")
    first.answers = [NotFound("first: no such device"), ""]
    probe = KernelLogProbe((first, second), files, clock)
    assert probe.period == 60
    assert await probe.read() == "second: no card needs anything"
    assert probe.period == 20
    probe.onto_inventory(inventory(card()))
    assert probe.period == 10
    await probe.read()
    assert (first.asked, second.asked) == (1, 2)
    await probe.close()
    assert (first.closed, second.closed) == (True, True)


async def test_a_log_that_nobody_may_read_is_silent_without_cards_and_an_error_with_them(
    probe, source
):
    refused = Refused("/dev/kmsg: this user may not read it")
    source.answers = [refused, refused]
    assert "no NVIDIA cards" in await probe.read()
    assert probe.onto_heartbeat(Heartbeat(sequence=1)) == Heartbeat(sequence=1)
    probe.onto_inventory(inventory(card()))
    with pytest.raises(Refused) as caught:
        await probe.read()
    assert "this user may not read it" in caught.value.message
    assert "kernel.dmesg_restrict" in caught.value.message
    assert "adm" in caught.value.message
    device = only(probe.onto_inventory(inventory(card())).devices)
    assert device.unhealthy is None


async def test_a_source_that_fails_later_is_an_error_and_read_on_from_where_it_was(probe, source):
    source.answers = [CRASH, TimedOut("log: no end within 20 s"), LOST]
    await probe.read()
    with pytest.raises(TimedOut):
        await probe.read()
    await probe.read()
    probe.onto_inventory(inventory(card()))
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert [(one.code, one.count) for one in health.xids or ()] == [(13, 1), (79, 1)]


JOURNAL = "2025-01-17T17:10:43+0000 n1 kernel: NVRM: Xid (PCI:0000:01:00): 13, a\n"


async def test_the_journal_is_read_on_from_its_cursor(files):
    processes = FakeProcesses(files)
    answers = [
        Done(0, f"{JOURNAL}-- cursor: s=1;i=2\n", ""),
        Done(0, f"{JOURNAL}-- cursor: s=1;i=3\n", ""),
        Done(0, "", ""),
    ]
    processes.on_run = lambda argv: answers.pop(0)
    journal = JournalSource(processes)
    assert [await journal.news() for _ in range(3)] == [(JOURNAL,), (JOURNAL,), ()]
    assert [argv[-1] for argv in processes.ran] == [
        "--lines=20000",
        "--after-cursor=s=1;i=2",
        "--after-cursor=s=1;i=3",
    ]
    assert "-b" in processes.ran[0]
    # All that came through the kernel log is -k's; what the kernel said itself has facility 0.
    assert {"-k", "SYSLOG_FACILITY=0"} <= set(processes.ran[1])


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (Done(1, "", "No journal files were opened due to insufficient permissions.\n"), "opened"),
        (Done(0, "", ""), "shows no kernel log to this user"),
        (Done(1, "-- No entries --\n", ""), "shows no kernel log to this user"),
    ],
)
async def test_a_journal_that_shows_nothing_is_not_read(files, done: Done, words: str):
    processes = FakeProcesses(files)
    processes.on_run = lambda argv: done
    with pytest.raises(Refused, match=words):
        await JournalSource(processes).news()


async def test_of_dmesg_only_what_is_new_is_read(files):
    processes = FakeProcesses(files)
    outputs = ["a\nb\n", "a\nb\n", "b\nc\nd\n", "x\ny\n", ""]
    processes.on_run = lambda argv: Done(0, outputs.pop(0), "")
    dmesg = DmesgSource(processes)
    assert [await dmesg.news() for _ in range(5)] == [
        ("a\nb\n",),
        (),
        ("c\nd\n",),
        ("x\ny\n",),
        (),
    ]


async def test_of_dmesg_nothing_is_counted_twice_because_its_last_line_has_no_end(files):
    processes = FakeProcesses(files)
    outputs = ["a\nb", "a\nb", "a\nb\nc"]
    processes.on_run = lambda argv: Done(0, outputs.pop(0), "")
    dmesg = DmesgSource(processes)
    assert [await dmesg.news() for _ in range(3)] == [("a\nb\n",), (), ("c\n",)]
    assert "--kernel" in processes.ran[0]


async def test_a_line_of_dmesg_that_ends_like_the_last_one_is_another(files):
    processes = FakeProcesses(files)
    outputs = ["a b\nb\n", "a b\nb\na b\n", "a b\nc\n"]
    processes.on_run = lambda argv: Done(0, outputs.pop(0), "")
    dmesg = DmesgSource(processes)
    assert [await dmesg.news() for _ in range(3)] == [("a b\nb\n",), ("a b\n",), ("c\n",)]


async def test_a_dmesg_that_is_forbidden_says_so(files):
    processes = FakeProcesses(files)
    processes.on_run = lambda argv: Done(
        1, "", "dmesg: read kernel buffer failed: Operation not permitted\n"
    )
    with pytest.raises(Refused, match="Operation not permitted"):
        await DmesgSource(processes).news()


async def test_an_odd_failure_of_the_best_source_is_not_hidden_by_the_next(files, clock):
    first, second = FakeSource("first"), FakeSource("second")
    first.answers = [Unreadable("/dev/kmsg: Input/output error")]
    probe = KernelLogProbe((first, second), files, clock)
    with pytest.raises(Unreadable):
        await probe.read()
    assert second.asked == 0


@pytest.mark.parametrize("lines", ["12,1,5000000,-;{}\n", "user  :err : [ 5.0] {}\n"])
async def test_no_program_can_make_a_card_unhealthy_or_healthy_by_writing_into_the_log(
    probe, source, lines
):
    loaded = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 2024"
    source.answers = [LOST + lines.format(loaded), lines.format(LOST.partition(";")[2].strip())]
    probe.onto_inventory(inventory(card(), card(1, "00000000:05:00.0")))
    for _ in range(2):
        await probe.read()
    devices = probe.onto_inventory(inventory(card(), card(1, "00000000:05:00.0"))).devices
    assert [one.unhealthy for one in devices or ()] == [(WORDS.replace("08:00", "07:00"),), ()]
    health = probe.onto_heartbeat(Heartbeat(sequence=1)).health or ()
    assert [[one.count for one in told.xids or ()] for told in health] == [[1], []]


async def test_a_flood_of_cards_that_nobody_lists_is_told_and_hides_no_listed_one(probe, source):
    flood = [LOST.replace("0000:01:00", f"{number:04x}:05:00") for number in range(1, 101)]
    source.answers = ["".join([*flood, LOST, *flood])]
    probe.onto_inventory(inventory(card()))
    words = "65 cards need somebody; more than 64 cards that the driver does not list have errors"
    with pytest.raises(Unreadable, match=words):
        await probe.read()
    assert only(probe.onto_inventory(inventory(card())).devices).unhealthy


@pytest.mark.parametrize("microseconds", ["9" * 18, "9" * 20])
async def test_a_time_that_is_none_costs_the_time_alone(probe, source, microseconds):
    source.answers = [LOST.replace("5000000", microseconds)]
    await probe.read()
    device = only(probe.onto_inventory(inventory(card())).devices)
    assert device.unhealthy == ("XID 79 (fell off the bus): reboot the machine",)
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert [one.last_seen for one in health.xids or ()] == [None]


@pytest.mark.parametrize("uptime", [b"nan 1", b"inf 1", b"1e308 1", b"-5 1", b"", b"x"])
async def test_an_uptime_that_is_none_gives_errors_no_time(probe, source, files, uptime):
    files.content[Path("/proc/uptime")] = uptime
    source.answers = [LOST]
    await probe.read()
    device = only(probe.onto_inventory(inventory(card())).devices)
    assert device.unhealthy == ("XID 79 (fell off the bus): reboot the machine",)


async def test_a_long_log_is_read_in_slices_between_which_others_run(probe, source):
    text = CRASH * 50_000
    source.answers = [text]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(others())
    await probe.read()
    running.cancel()
    # A slice of 16 KiB is read in some two milliseconds.
    assert turns >= len(text) // (17 << 10)
    probe.onto_inventory(inventory(card()))
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert only(health.xids).count == 50_000
