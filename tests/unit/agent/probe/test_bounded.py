"""Nothing that a tool makes up each time anew is kept for ever, and no list of it has no end."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pynvml
import pytest

from llmgw.base.errors import Unreadable
from llmgw.base.world import Done
from llmgw.model.device import Device, PciLink
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.host.disk import Space
from llmgw_agent.parse.card_bounds import MOST_INSTANCES, MOST_PROCESSES, within
from llmgw_agent.parse.card_history import since
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen, Instance
from llmgw_agent.parse.plausible import MOST_CARDS
from llmgw_agent.probe.card_links import CardLinksProbe
from llmgw_agent.probe.card_reader import CardReader
from llmgw_agent.probe.card_request import CARDS
from llmgw_agent.probe.cards import CardsProbe
from llmgw_agent.probe.disks import filesystems
from llmgw_agent.probe.nvml_side import Nvml
from llmgw_agent.probe.pci import PciProbe
from llmgw_agent.probe.per_card import PerCard
from llmgw_agent.probe.report import ReportProbe
from llmgw_agent.probe.shards import ShardsProbe
from llmgw_agent.probe.smi import NvidiaSmi
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.fakes.nvml import FakeCard, FakeNvml, FakePart
from tests.only import only

PLACE = "00000000:01:00.0"


def named(number: int) -> str:
    return f"GPU-{number:08x}-0000-0000-0000-000000000000"


def card(number: int, place: str | None = PLACE, **said: object) -> Card:
    return Card(index=0, uuid=named(number), pci_address=place, **said)  # type: ignore[arg-type]


class Changing:
    """A reader whose cards have other UUIDs each time."""

    def __init__(self, cards: Callable[[int], Sequence[Card]]) -> None:
        self.readings = 0
        self.cards = cards

    def __call__(self, _request: object) -> CardsSeen:
        self.readings += 1
        return CardsSeen(cards=tuple(self.cards(self.readings)))

    def reader(self, clock: FakeClock) -> CardReader:
        return CardReader(FakeHelper(self), FakeProcesses(MemoryFiles()), clock)


async def test_another_card_at_the_same_address_takes_the_place_of_the_one_before(clock):
    probe = CardsProbe(Changing(lambda reading: [card(reading)]).reader(clock), clock)
    for _ in range(50):
        assert await probe.read() == "1 NVIDIA card"
    assert [one.uuid for one in probe.devices or ()] == [named(50)]
    assert [one.uuid for one in probe.samples or ()] == [named(50)]


@pytest.mark.parametrize(
    "place", [lambda reading: None, lambda reading: f"{reading:08x}:01:00.0"], ids=["no", "other"]
)
async def test_cards_without_an_address_or_with_another_each_time_are_bounded(clock, place):
    cards = Changing(lambda reading: [card(reading, place(reading))])
    probe = CardsProbe(cards.reader(clock), clock)
    for _ in range(MOST_CARDS + 50):
        await probe.read()
    found = [one.uuid for one in probe.devices or ()]
    assert found[:2] == [named(MOST_CARDS + 50), named(MOST_CARDS + 49)]
    assert len(found) == len(probe.samples or ()) == MOST_CARDS


def test_a_card_that_is_gone_stays_while_nobody_has_its_address():
    before = (card(1), card(2, "00000000:02:00.0"))
    seen = since(before, CardsSeen(cards=(card(2, "00000000:02:00.0"),)))
    assert [(one.uuid, one.trouble is None) for one in seen.cards] == [
        (named(2), True),
        (named(1), False),
    ]
    cut = since(before, CardsSeen(cards=(card(3),), cut=True))
    assert [one.uuid for one in cut.cards] == [named(3), named(2)]


async def test_of_more_cards_than_there_can_be_the_first_are_taken_and_the_probe_says_so(clock):
    many = [card(number, f"{number:08x}:01:00.0") for number in range(300)]
    probe = CardsProbe(Changing(lambda _: many).reader(clock), clock)
    words = "300 cards are told, and all after the first 256 are left out"
    with pytest.raises(Unreadable, match=words):
        await probe.read()
    assert [one.uuid for one in probe.devices or ()] == [named(number) for number in range(256)]


def test_instances_and_processes_of_a_card_have_an_end_that_is_told():
    processes = tuple(CardProcess(pid=number) for number in range(1, 5001))
    parts = tuple(Instance(index=number, processes=processes) for number in range(100))
    seen = within(CardsSeen(cards=(card(1, instances=parts, processes=processes),), trouble="x"))
    found = only(seen.cards)
    assert len(found.instances or ()) == MOST_INSTANCES
    assert len(found.processes or ()) == MOST_PROCESSES
    assert [len(one.processes or ()) for one in found.instances or ()] == [1024] * MOST_INSTANCES
    assert (seen.trouble or "").startswith("x; 5000 processes on a card are told, and all after")
    assert "100 instances of a card are told, and all after the first 64" in (seen.trouble or "")


def test_a_library_that_counts_more_than_there_can_be_is_not_asked_for_all():
    part = FakePart("MIG-1", "NVIDIA H100 MIG 1g.10gb", 1)
    carved = FakeCard(uuid=named(0), mig=True, most_parts=4_000_000_000, parts={0: part})
    fake = FakeNvml(carved, *(FakeCard(uuid=named(number)) for number in range(1, 300)))
    seen = Nvml(fake).read(CARDS)
    assert len(seen.cards) == MOST_CARDS
    assert seen.trouble == "300 cards are told, and all after the first 256 are left out"
    assert len(seen.cards[0].instances or ()) == 1


def test_readings_of_the_library_that_can_not_be_are_none():
    span = pynvml.NVML_VOLATILE_ECC
    fake = FakeNvml(
        FakeCard(
            uuid=named(0),
            memory=(1 << 63, 1 << 60),
            utilization=(101, 4_000_000_000),
            temperature=999,
            memory_temperature=4_000_000_000,
            power=4_294_967_295,
            power_limit=-1,
            sm_clock=4_294_967_295,
            fan=4_294_967_295,
            ecc={(kind, span): (1 << 64) - 1 for kind in (0, 1)},
        )
    )
    assert only(Nvml(fake).read(CARDS).cards) == Card(
        index=0, uuid=named(0), memory_of_its_own=True
    )


def test_samples_of_cards_that_are_gone_are_given_back():
    fake = FakeNvml(FakeCard(uuid=named(0), gpm={2: 1.0}))
    nvml = Nvml(fake)
    for number in range(20):
        fake.cards[0].uuid = named(number)
        nvml.read(CARDS)
    assert fake.samples == 1


async def test_links_of_cards_that_are_gone_are_forgotten(clock):
    link = PciLink(lanes=8, max_lanes=16)
    changing = Changing(lambda reading: [card(reading, pci=link)])
    probe = CardLinksProbe(changing.reader(clock), clock)
    for number in range(1, 6):
        await probe.read()
        there = Inventory(devices=(Device(uuid=named(number)),))
        assert only(probe.onto_inventory(there).devices).pci == link
    gone = Inventory(devices=tuple(Device(uuid=named(number)) for number in range(1, 6)))
    assert [one.pci for one in probe.onto_inventory(gone).devices or ()] == [None] * 4 + [link]
    for _ in range(MOST_CARDS + 10):
        await probe.read()
    many = Inventory(devices=tuple(Device(uuid=named(n)) for n in range(MOST_CARDS + 20)))
    linked = [one for one in probe.onto_inventory(many).devices or () if one.pci is not None]
    assert len(linked) == MOST_CARDS


def test_readings_kept_for_each_card_are_those_of_as_many_cards_as_there_can_be(clock):
    kept = PerCard[int](clock)
    for number in range(MOST_CARDS + 10):
        kept.put({named(number): number, named(0): number})
    assert len(kept.last) == MOST_CARDS
    assert kept.last[named(0)] == MOST_CARDS + 9
    assert named(1) not in kept.last
    kept.hold({named(0)})
    assert [*kept.last] == [named(0)]


def report(uuid: str) -> str:
    return f"""Attached GPUs : 1
GPU 00000000:01:00.0
    Product Name : NVIDIA A10
    GPU UUID : {uuid}
    Remapped Rows
        Pending : Yes
    Processes : None
"""


async def test_reports_and_nvlinks_of_cards_that_are_gone_are_forgotten(clock):
    now = [named(0)]

    def tool(argv: Sequence[str]) -> Done:
        if argv[1] == "-q":
            return Done(0, report(now[0]), "")
        counter = ": 5" if argv[-1] == "-e" else ": 25.781 GB/s"
        name = "Link 0: Replay Errors" if argv[-1] == "-e" else "Link 0"
        return Done(0, f"GPU 0: NVIDIA A10 (UUID: {now[0]})\n\t {name}{counter}\n", "")

    processes = FakeProcesses(MemoryFiles())
    processes.on_run = tool
    probe = ReportProbe(NvidiaSmi(processes, clock), clock)
    for number in range(10):
        now[0] = named(number)
        await probe.read()
        probe.onto_inventory(Inventory(devices=(Device(uuid=named(number)),)))
    health = only(probe.onto_heartbeat(Heartbeat(sequence=1)).health)
    assert (health.uuid, health.nvlinks) == (named(9), 1)
    for number in range(10, MOST_CARDS + 50):
        now[0] = named(number)
        await probe.read()
    assert len(probe.onto_heartbeat(Heartbeat(sequence=1)).health or ()) == MOST_CARDS
    assert len(probe._links._up) == MOST_CARDS


async def test_addresses_on_the_bus_that_are_gone_have_an_end(clock):
    files = MemoryFiles()
    probe = PciProbe(files, FakeHelper(lambda _: Unreadable("asked")), clock)
    for number in range(MOST_CARDS + 40):
        probe._known[f"{number:04x}:01:00"] = None  # type: ignore[assignment]
    await probe.read()
    assert len(probe._known) == MOST_CARDS
    assert f"{MOST_CARDS + 39:04x}:01:00" in probe._known


def test_a_filesystem_of_a_size_that_no_record_holds_has_none():
    space = Space(real="/data", total_bytes=1 << 63, free_bytes=-1)
    found = only(filesystems({"/data": space}, (), frozenset()))
    assert (found.total_bytes, found.free_bytes) == (None, None)


async def test_others_run_while_thousands_of_processes_are_looked_at(clock):
    files = MemoryFiles()
    for pid in range(1, 2001):
        text = f"{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 9 0 {10**16} 0"
        files.content[Path(f"/proc/{pid}/stat")] = text.encode()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(others())
    probe = ShardsProbe(lambda: {1: ("a", 0)}, files, clock)
    assert await probe.read() == "1 engine"
    running.cancel()
    assert turns >= 10
    assert only(probe.use.last).memory_bytes is None
