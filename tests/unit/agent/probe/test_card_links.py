"""Links of the cards: once a minute, a slow one is one warning, and wear is told with its age."""

import msgspec
import pytest

from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw.model.device import Device, DeviceHealth, PciLink
from llmgw.model.node import Heartbeat, Host, Inventory
from llmgw_agent.parse.card_devices import devices
from llmgw_agent.parse.cards import CardsSeen, Instance
from llmgw_agent.probe.card_links import CardLinksProbe
from llmgw_agent.probe.card_reader import CardReader
from tests.fakes.cards import OTHER, UUID, card
from tests.fakes.helper import FakeHelper
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only

NARROW = PciLink(max_generation=4, card_generation=4, lanes=8, max_lanes=16)
WORDS = (
    "slow PCIe link, 8 of its 16 lanes are in use: it carries 15.8 of 31.5 GB/s; "
    "compare LnkCap and LnkSta of `lspci -vvv -s 0000:10:00.0`"
)


class Answers:
    """What the reader says, changed by a test."""

    def __init__(self) -> None:
        self.now: CardsSeen | TimedOut | NotFound = CardsSeen(
            cards=(card(pci=NARROW, nvlink_peers=(OTHER,)), card(1, OTHER)), cuda="12.4"
        )

    def __call__(self, _request: object) -> CardsSeen | TimedOut | NotFound:
        return self.now


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def probe(answers, clock) -> CardLinksProbe:
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = lambda argv: NotFound("nvidia-smi: no such program")
    return CardLinksProbe(CardReader(FakeHelper(answers), processes, clock), clock)


def inventory(*found: Device) -> Inventory:
    return Inventory(host=Host(hostname="n"), devices=found)


async def test_a_narrow_link_is_on_its_device_and_one_warning(probe):
    before = inventory(*devices((card(), card(1, OTHER))))
    assert probe.onto_inventory(before) == before
    assert await probe.read() == "links of 2 NVIDIA cards"
    told = probe.onto_inventory(before)
    assert told.devices is not None
    first, second = told.devices
    assert (first.pci, first.nvlink_peers) == (NARROW, (OTHER,))
    assert (second.pci, second.nvlink_peers) == (None, None)
    assert [(one.subject, one.words) for one in told.warnings or ()] == [("gpu0", WORDS)]
    assert told.host is not None
    assert told.host.cuda_version == "12.4"
    assert (probe.period, probe.late) == (60.0, True)


async def test_a_slow_link_of_a_card_in_mig_mode_is_one_warning_of_the_card(probe, answers):
    parts = tuple(Instance(index=index, uuid=f"MIG-{index}") for index in range(4))
    cut = card(mig=True, instances=parts)
    answers.now = CardsSeen(cards=(card(pci=NARROW),))
    await probe.read()
    told = probe.onto_inventory(inventory(*devices((cut,))))
    assert len(told.devices or ()) == 5
    assert [(one.subject, one.words) for one in told.warnings or ()] == [("gpu0", WORDS)]
    assert [device.pci for device in told.devices or ()][1:] == [None] * 4


async def test_links_are_told_until_there_are_others_and_wear_for_a_minute(probe, answers, clock):
    answers.now = CardsSeen(
        cards=(card(pci=NARROW, health=DeviceHealth(uuid=UUID, remap_pending=True)),)
    )
    await probe.read()
    await clock.advance(30)
    beat = probe.onto_heartbeat(Heartbeat(sequence=1))
    assert beat.health == (DeviceHealth(uuid=UUID, remap_pending=True, age=30.0),)
    answers.now = TimedOut("no answer")
    with pytest.raises(TimedOut):
        await probe.read()
    await clock.advance(31)
    assert probe.onto_heartbeat(Heartbeat(sequence=2)).health is None
    assert only(probe.onto_inventory(inventory(*devices((card(),)))).warnings).words == WORDS


async def test_what_others_said_of_a_devices_peers_stays(probe, answers):
    answers.now = CardsSeen(cards=(card(nvlink_peers=()),))
    await probe.read()
    (known,) = devices((card(nvlink_peers=(OTHER,)),))
    assert only(probe.onto_inventory(inventory(known)).devices).nvlink_peers == (OTHER,)


async def test_an_answer_without_cards_or_with_half_of_them_is_told_as_failed(probe, answers):
    answers.now = CardsSeen(warning="reboot")
    with pytest.raises(Unreadable, match="reboot"):
        await probe.read()
    answers.now = CardsSeen(cards=(card(pci=NARROW),), cut=True)
    with pytest.raises(Unreadable, match="middle of a card"):
        await probe.read()
    answers.now = NotFound("gone")
    with pytest.raises(NotFound):
        await probe.read()


async def test_a_question_that_failed_beside_the_links_is_said_and_the_links_stay(probe, answers):
    assert isinstance(answers.now, CardsSeen)
    answers.now = msgspec.structs.replace(answers.now, trouble="CUDA version: no end")
    with pytest.raises(Unreadable, match="CUDA version: no end"):
        await probe.read()
    told = probe.onto_inventory(inventory(*devices((card(),))))
    assert only(told.devices).pci == NARROW
