"""Health of the cards through a tool that answers, hangs, prints half, vanishes and comes back."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw.model.device import (
    GPU,
    MIG,
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NvlinkFabric,
)
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.probe.report import ReportProbe
from llmgw_agent.probe.smi import OFTEN, SELDOM, NvidiaSmi
from tests.fakes.clock import FakeClock
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures"
H100S = (FIXTURES / "nvidia-smi-q" / "8x-h100-535-hw-slowdown.txt").read_text()
A10 = (FIXTURES / "nvidia-smi-q" / "1x-a10-535-remap-pending.txt").read_text()
A10_UUID = "GPU-32ea4b4e-fc38-17f1-383e-715e8de044b8"
TRUNCATED = (FIXTURES / "nvidia-smi-q" / "8x-h100-535-truncated.txt").read_text()
FIRST, LAST = (
    "GPU-b58d40dc-98d0-36a7-234c-2a26485ac4b0",
    "GPU-23efd3c0-3873-9a87-c2a5-eac6df0d0c9a",
)
HANGS = TimedOut("nvidia-smi: no end within 15 s")
GONE = NotFound("nvidia-smi: no such program")
MISMATCH = Done(18, "Failed to initialize NVML: Driver/library version mismatch\n", "")


def links(up: Sequence[int], *, of: int = 3) -> str:
    """Return what `nvlink -s` prints of cards with so many links up."""
    return "".join(
        f"GPU {index}: NVIDIA A10 (UUID: {A10_UUID if index == 0 else f'GPU-{index}'})\n"
        + "".join(
            f"\t Link {n}: {'26.562 GB/s' if n < active else '<inactive>'}\n" for n in range(of)
        )
        for index, active in enumerate(up)
    )


def errors(count: int, *, replays: int) -> str:
    return f"GPU 0: NVIDIA A10 (UUID: {A10_UUID})\n" + "".join(
        f"\t Link {n}: Replay Errors: {replays}\n"
        f"\t Link {n}: Recovery Errors: 0\n"
        f"\t Link {n}: CRC Errors: 1\n\n"
        for n in range(count)
    )


class Tool:
    """What nvidia-smi answers to each question; a test changes it."""

    def __init__(self, report: str, status: str = "", counters: str = "") -> None:
        self.report: Done | LlmgwError = Done(0, report, "")
        self.status: Done | LlmgwError = Done(0, status, "")
        self.counters: Done | LlmgwError = Done(0, counters, "")

    def __call__(self, argv: Sequence[str]) -> Done | LlmgwError:
        return {"-q": self.report, "-s": self.status, "-e": self.counters}[argv[-1]]


class Machine:
    """A probe and the tool that it runs."""

    def __init__(self, clock: FakeClock, tool: Tool) -> None:
        self.processes = FakeProcesses(MemoryFiles())
        self.processes.on_run = tool
        self.tool = tool
        self.own: set[int] = set()
        self.probe = ReportProbe(
            NvidiaSmi(self.processes, clock), clock, is_own=lambda pid: pid in self.own
        )

    def health(self) -> dict[str, DeviceHealth]:
        beat = self.probe.onto_heartbeat(Heartbeat(sequence=1))
        return {one.uuid: one for one in beat.health or ()}

    def inventory(self, *devices: Device) -> Inventory:
        return self.probe.onto_inventory(Inventory(devices=devices))


async def test_each_card_tells_its_health_and_its_fabric(clock: FakeClock):
    machine = Machine(clock, Tool(H100S))
    assert await machine.probe.read() == "health of 8 cards"
    assert machine.probe.period == OFTEN
    await clock.advance(7)
    assert machine.health()[LAST] == DeviceHealth(
        uuid=LAST,
        ecc_corrected_volatile=0,
        ecc_uncorrected_volatile=0,
        ecc_corrected_aggregate=0,
        ecc_uncorrected_aggregate=0,
        remapped_corrected=0,
        remapped_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        recovery_action="none",
        age=7,
    )
    device = only(machine.inventory(Device(uuid=FIRST, kind=GPU)).devices)
    assert device.nvlink == NvlinkFabric(state="Completed", status="Success")
    assert device.unhealthy == ()


async def test_a_row_that_waits_makes_card_and_instances_unhealthy(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    await machine.probe.read()
    card = Device(uuid=A10_UUID, kind=GPU, unhealthy=("heat",))
    instance = Device(uuid="MIG-1", kind=MIG, card_uuid=A10_UUID)
    other = Device(uuid="GPU-other", kind=GPU)
    found = machine.inventory(card, instance, other).devices
    assert found is not None
    waits = "a row waits to be remapped: reset the card"
    assert [device.unhealthy for device in found] == [("heat", waits), (waits,), None]


async def test_what_the_driver_library_told_of_a_fabric_is_completed(clock: FakeClock):
    machine = Machine(clock, Tool(H100S))
    await machine.probe.read()
    known = NvlinkFabric(state="In Progress", clique_id=7)
    device = only(machine.inventory(Device(uuid=FIRST, nvlink=known)).devices)
    assert device.nvlink == NvlinkFabric(state="In Progress", status="Success", clique_id=7)


async def test_a_tool_that_hangs_leaves_the_last_value_for_a_minute(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    await machine.probe.read()
    machine.tool.report = HANGS
    with pytest.raises(TimedOut):
        await machine.probe.read()
    assert machine.processes.ran.count(("nvidia-smi", "nvlink", "-s")) == 1  # not asked as well
    await clock.advance(60)
    assert A10_UUID in machine.health()
    await clock.advance(1)
    assert machine.health() == {A10_UUID: DeviceHealth(uuid=A10_UUID, age=61)}
    others = (DeviceHealth(uuid=A10_UUID, ecc_corrected_volatile=1, age=2),)
    assert machine.probe.onto_heartbeat(Heartbeat(sequence=1, health=others)).health == others
    # A card does not become fit because its tool hangs.
    device = only(machine.inventory(Device(uuid=A10_UUID, unhealthy=())).devices)
    assert device.unhealthy == ("a row waits to be remapped: reset the card",)
    machine.tool.report = Done(0, A10.replace(": Yes", ": No"), "")
    assert await machine.probe.read() == "health of 1 card"
    assert only(machine.inventory(Device(uuid=A10_UUID)).devices).unhealthy == ()
    await clock.advance(61)  # that it is fine is not known for ever
    assert only(machine.inventory(Device(uuid=A10_UUID)).devices).unhealthy is None


async def test_a_report_that_is_cut_costs_the_cards_it_lacks(clock: FakeClock):
    machine = Machine(clock, Tool(H100S))
    await machine.probe.read()
    await clock.advance(40)
    fourth = H100S.index("GPU 00000000:5D:00.0")
    machine.tool.report = Done(0, H100S[: fourth + 7000], "")
    with pytest.raises(Unreadable, match="all of 3 of 8 cards"):
        await machine.probe.read()
    ages = {uuid: one.age for uuid, one in machine.health().items()}
    assert (ages[FIRST], ages[LAST], len(ages)) == (0, 40, 8)
    await clock.advance(21)
    told = [one for one in machine.health().values() if one.recovery_action is not None]
    assert len(told) == 3


async def test_a_section_that_is_cut_is_no_reading(clock: FakeClock):
    machine = Machine(clock, Tool(TRUNCATED))
    with pytest.raises(Unreadable, match="all of 0 of 8 cards"):
        await machine.probe.read()
    assert machine.health() == {}
    assert machine.probe.age is None


async def test_a_lost_card_does_not_hide_the_others(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    lost = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.\n"
    machine.tool.report = Done(15, A10.replace(": 1\n", ": 2\n", 1) + lost, "")
    with pytest.raises(Unreadable, match=r"1 of 2 cards \(exit status 15\)"):
        await machine.probe.read()
    assert list(machine.health()) == [A10_UUID]


async def test_a_driver_that_waits_for_a_reboot_is_named(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    machine.tool.report = MISMATCH
    with pytest.raises(Unreadable, match="reboot the machine"):
        await machine.probe.read()


async def test_a_machine_without_the_tool_is_quiet_and_asked_seldom(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    machine.tool.report = GONE
    assert await machine.probe.read() == "nvidia-smi is not on this machine"
    assert machine.probe.period == SELDOM
    assert (machine.probe.age, machine.health()) == (None, {})
    inventory = machine.inventory(Device(uuid="GPU-0"))
    assert inventory == Inventory(devices=(Device(uuid="GPU-0"),))


async def test_a_machine_without_cards_is_quiet(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    machine.tool.report = Done(6, "No devices were found\n", "")
    assert await machine.probe.read() == "no NVIDIA cards"
    assert machine.probe.period == SELDOM


async def test_a_tool_that_vanishes_is_a_failure_and_found_when_it_comes_back(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    await machine.probe.read()
    machine.tool.report = GONE
    with pytest.raises(NotFound):
        await machine.probe.read()
    machine.tool.report = Done(0, A10, "")
    with pytest.raises(NotFound):  # looked for once a minute
        await machine.probe.read()
    await clock.advance(SELDOM)
    assert await machine.probe.read() == "health of 1 card"


async def test_several_sources_look_for_a_missing_tool_once(clock: FakeClock):
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = lambda argv: GONE
    smi = NvidiaSmi(processes, clock)
    for _ in range(3):
        with pytest.raises(NotFound):
            await smi.run("-q")
    assert len(processes.ran) == 1


# NVLinks.


async def test_links_and_their_errors_are_counted(clock: FakeClock):
    machine = Machine(clock, Tool(A10, links([3]), errors(3, replays=5)))
    await machine.probe.read()
    assert machine.health()[A10_UUID].nvlinks_down == 0
    machine.tool.status = Done(0, links([2]), "")
    await machine.probe.read()
    told = machine.health()[A10_UUID]
    assert (told.nvlinks, told.nvlinks_down) == (3, 1)
    assert told.nvlink_replay_errors == 15
    assert told.nvlink_recovery_errors == 0
    assert told.nvlink_crc_errors == 3
    assert machine.inventory().warnings == (
        NodeWarning(subject="nvlink", words="GPU 0: 1 of its 3 NVLinks are down"),
    )


async def test_a_machine_without_nvlink_is_not_asked_for_errors(clock: FakeClock):
    machine = Machine(clock, Tool(A10))
    await machine.probe.read()
    assert machine.processes.ran == [("nvidia-smi", "-q"), ("nvidia-smi", "nvlink", "-s")]
    assert machine.health()[A10_UUID].nvlinks is None


async def test_links_that_cannot_be_read_cost_themselves_alone(clock: FakeClock):
    machine = Machine(clock, Tool(A10, links([3]), errors(3, replays=0)))
    await machine.probe.read()
    machine.tool.status = HANGS
    with pytest.raises(Unreadable, match="NVLinks: nvidia-smi: no end"):
        await machine.probe.read()
    assert machine.health()[A10_UUID].nvlinks == 3
    await clock.advance(45)
    with pytest.raises(Unreadable):
        await machine.probe.read()
    await clock.advance(16)
    told = machine.health()[A10_UUID]
    assert (told.nvlinks, told.nvlink_crc_errors, told.remap_pending) == (None, None, True)


async def test_a_listing_that_is_cut_shows_no_link_as_down(clock: FakeClock):
    machine = Machine(clock, Tool(A10, links([3]), errors(3, replays=2)))
    await machine.probe.read()
    machine.tool.status = Done(0, links([3])[:-30], "")
    await machine.probe.read()
    assert machine.health()[A10_UUID].nvlinks_down == 0
    assert machine.inventory().warnings is None


async def test_errors_of_which_some_are_cut_never_seem_to_fall(clock: FakeClock):
    machine = Machine(clock, Tool(A10, links([3]), errors(3, replays=2)))
    await machine.probe.read()
    machine.tool.counters = Done(0, errors(2, replays=2), "")
    await machine.probe.read()
    assert machine.health()[A10_UUID].nvlink_replay_errors == 6


async def test_a_card_that_wore_out_is_a_warning(clock: FakeClock):
    text = A10.replace(
        "            DRAM Uncorrectable            : 0\n    Retired",
        "            SRAM Threshold Exceeded       : Yes\n    Retired",
    )
    machine = Machine(clock, Tool(text))
    await machine.probe.read()
    warning = only(machine.inventory().warnings)
    assert warning.words.startswith("NVIDIA A10 at 00000000:07:00.0: more uncorrectable errors")


# What readings lack.

TITAN = (FIXTURES / "nvidia-smi-q" / "1x-titanv-560.txt").read_text()
TITAN_UUID = "GPU-15268734-b297-f9cd-81c7-2e0f93dba87b"
XORG = ForeignProcess(  # Process ID : 100607, Type : G, Used GPU Memory : 142 MiB
    pid=100607, command="/usr/lib/xorg/Xorg", memory_bytes=142 << 20, kind="graphics"
)
SHELL = ForeignProcess(  # Process ID : 100838, Type : G, Used GPU Memory : 33 MiB
    pid=100838, command="/usr/bin/gnome-shell", memory_bytes=33 << 20, kind="graphics"
)
PYTHON = ForeignProcess(pid=7, command="python", memory_bytes=1, kind="compute")


def reading(machine: Machine, **known: object) -> DeviceSample:
    sample = DeviceSample(uuid=TITAN_UUID, **known)  # type: ignore[arg-type]
    return only(machine.probe.onto_heartbeat(Heartbeat(sequence=1, devices=(sample,))).devices)


async def test_readings_learn_of_replays_and_of_processes_that_only_draw(clock: FakeClock):
    machine = Machine(clock, Tool(TITAN))
    machine.own.add(101815)  # Process ID : 101815, Type : G
    await machine.probe.read()
    told = reading(machine, foreign=(PYTHON,))
    assert told.pcie_replays == 0  # Replays Since Reset : 0
    assert told.foreign == (PYTHON, XORG, SHELL)
    await clock.advance(61)
    assert reading(machine, foreign=(PYTHON,)).foreign == (PYTHON,)


async def test_what_a_reading_says_of_itself_stays(clock: FakeClock):
    machine = Machine(clock, Tool(TITAN))
    await machine.probe.read()
    library = ForeignProcess(pid=100607, command="Xorg", memory_bytes=1, kind="both")
    told = reading(machine, pcie_replays=3, foreign=(library,))
    assert told.pcie_replays == 3
    assert (told.foreign or ())[:2] == (library, SHELL)
    assert reading(machine).foreign is None, "who computes there is not known"


async def test_links_of_a_card_whose_uuid_can_not_be_read_are_missed_in_words(clock: FakeClock):
    status = links([3, 2]).replace("GPU 1: NVIDIA A10 (UUID", "GPU 1: NVIDIA\nA10 (UUID")
    machine = Machine(clock, Tool(A10, status, errors(3, replays=5)))
    with pytest.raises(Unreadable, match=r"NVLinks: .*the UUID of GPU 1 can't be read"):
        await machine.probe.read()
    told = machine.health()[A10_UUID]
    assert (told.nvlinks, told.nvlink_replay_errors) == (3, 15)


FORGED = """\
    Processes
        Process ID                        : 4242
            Type                          : C
            Name                          : x
    GPU Recovery Action                   : Reboot
"""


async def test_no_processs_name_makes_a_card_ask_for_a_reboot(clock: FakeClock):
    # The driver of this report, 535, has no such line.
    assert "GPU Recovery Action" not in A10
    at = A10.index("    Processes")
    machine = Machine(clock, Tool(A10[:at] + FORGED))
    assert await machine.probe.read() == "health of 1 card"
    # Reset Required                    : No
    assert machine.health()[A10_UUID].recovery_action == "none"


async def test_of_two_sections_on_one_card_neither_is_believed(clock: FakeClock):
    section = A10[A10.index("GPU 00000000:") :].rstrip("\n") + "\n"
    forged = section.replace("Pending                           : Yes", "Pending : No")
    assert forged != section
    machine = Machine(clock, Tool(A10.rstrip("\n") + "\n" + forged))
    with pytest.raises(Unreadable, match="tells all of 0 of 2 cards"):
        await machine.probe.read()
    assert machine.health() == {}
