"""Cards and their readings over time: no hang or error hides a card, and old values go."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw.model.node import Heartbeat, Host, Inventory
from llmgw_agent.parse.card_history import IN_DOUBT
from llmgw_agent.parse.cards import LOST, Card, CardsSeen, Instance
from llmgw_agent.parse.mig import NOTHING_CARVED
from llmgw_agent.parse.nvidia_smi_errors import MISMATCH, NOT_LOADED
from llmgw_agent.probe.card_reader import CardReader
from llmgw_agent.probe.cards import SILENT, CardsProbe, card_probes
from llmgw_agent.probe.probing import Probing
from tests.fakes.cards import OTHER, UUID, FakeSmi, card, h100, no_library
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only


@pytest.fixture
def smi() -> FakeSmi:
    return FakeSmi(h100())


@pytest.fixture
def probe(smi, clock) -> CardsProbe:
    """A probe that reads through nvidia-smi."""
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = smi
    return CardsProbe(CardReader(FakeHelper(no_library), processes, clock), clock)


def of_helper(helper: FakeHelper, clock: FakeClock) -> CardsProbe:
    return CardsProbe(CardReader(helper, FakeProcesses(MemoryFiles()), clock), clock)


async def test_cards_reach_inventory_and_heartbeat(probe):
    assert probe.devices is None
    assert probe.samples is None
    assert await probe.read() == "1 NVIDIA card"
    told = probe.onto_inventory(Inventory(host=Host(hostname="n")))
    assert told.host is not None
    assert told.host.nvidia_driver == "550.54.15"
    assert only(told.devices).device_class == "h100-80g"
    sample = only(probe.onto_heartbeat(Heartbeat(sequence=1)).devices)
    assert (sample.power_watts, sample.busy_percent, sample.age) == (612.3, 97.0, 0.0)
    assert probe.period == 10.0


async def test_a_machine_without_cards_has_an_empty_list_and_is_asked_seldom(clock):
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = lambda argv: NotFound("nvidia-smi: no such program")
    helper = FakeHelper(no_library)
    probes = card_probes(helper, processes, frozenset, clock)
    for one in probes.all:
        assert await one.read() == "no NVIDIA cards"
        assert one.period == 60.0
    assert probes.cards.devices == ()
    assert probes.cards.samples == ()
    assert probes.use.samples == ()
    await probes.cards.close()
    assert helper.closed


def timed_out() -> Done | LlmgwError:
    return TimedOut("nvidia-smi: no end within 15 s")


def vanished() -> Done | LlmgwError:
    return NotFound("nvidia-smi: no such program")


@pytest.mark.parametrize(("fault", "words"), [(timed_out, "no end"), (vanished, "no such")])
async def test_a_tool_that_hangs_or_vanishes_leaves_its_last_values_for_a_minute(
    probe, smi, clock, fault: Callable[[], Done | LlmgwError], words: str
):
    await probe.read()
    smi.faults["--query-gpu"] = fault()
    await clock.advance(50)
    with pytest.raises(LlmgwError, match=words):
        await probe.read()
    assert only(probe.samples).age == 50.0
    assert only(probe.devices).unhealthy == ()
    await clock.advance(11)
    assert probe.samples == ()
    assert only(probe.devices).unhealthy == (SILENT,)
    assert [warning.words for warning in probe.warnings] == [SILENT]
    smi.faults.clear()
    await clock.advance(60)
    await probe.read()
    assert only(probe.devices).unhealthy == ()
    assert probe.warnings == ()


async def test_a_driver_that_was_updated_keeps_its_cards_as_unhealthy_at_once(probe, smi, clock):
    await probe.read()
    said = "Failed to initialize NVML: Driver/library version mismatch\n"
    smi.faults["--query-gpu"] = Done(9, said, "")
    with pytest.raises(Unreadable, match="reboot"):
        await probe.read()
    device = only(probe.devices)
    assert (device.uuid, device.device_class) == (UUID, "h100-80g")
    assert device.unhealthy == (MISMATCH,)
    assert [(one.subject, one.words) for one in probe.warnings] == [("gpu", MISMATCH)]
    assert only(probe.samples).power_watts == 612.3
    await clock.advance(61)
    assert probe.samples == ()
    assert only(probe.devices).unhealthy is not None


async def test_half_a_row_says_nothing_and_is_told(probe, smi):
    smi.cards = [h100(), h100(1, OTHER)]
    await probe.read()
    good = smi(["nvidia-smi", smi.asked[0].split()[0]]).out
    header, first, second = good.splitlines()
    smi.faults["--query-gpu"] = Done(0, f"{header}\n{first}\n{second[:60]}", "")
    with pytest.raises(Unreadable, match="ends in the middle of a card"):
        await probe.read()
    assert [device.unhealthy for device in probe.devices or ()] == [(), ()]
    assert [sample.power_watts for sample in probe.samples or ()] == [612.3, 612.3]


async def test_a_driver_that_is_not_loaded_is_told_and_differs_from_no_card(probe, smi):
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make …\n"
    smi.faults["--query-gpu"] = Done(9, said, "")
    with pytest.raises(Unreadable, match="not loaded"):
        await probe.read()
    assert probe.devices == ()
    assert [warning.words for warning in probe.warnings] == [NOT_LOADED]
    smi.faults["--query-gpu"] = Done(6, "No devices were found\n", "")
    assert await probe.read() == "no NVIDIA cards"
    assert probe.warnings == ()


async def test_a_card_that_is_lost_is_told_by_its_own_name_and_its_values_go(clock):
    lost = Card(index=0, trouble="the driver does not answer for it: GPU is lost")
    readings = [CardsSeen(cards=(card(), card(1, OTHER))), CardsSeen(cards=(lost, card(1, OTHER)))]
    probe = of_helper(FakeHelper(lambda _: readings[0]), clock)
    await probe.read()
    readings.pop(0)
    await clock.advance(40)
    assert await probe.read() == "2 NVIDIA cards, 1 of them broken"
    assert [(one.uuid, one.unhealthy) for one in probe.devices or ()] == [
        (UUID, ("the driver does not answer for it: GPU is lost",)),
        (OTHER, ()),
    ]
    await clock.advance(30)
    assert [(one.uuid, one.age) for one in probe.samples or ()] == [(OTHER, 30.0)]


async def test_a_card_that_answers_by_its_name_alone_keeps_its_last_values_for_a_minute(clock):
    well = card(1, OTHER, power=70.0)
    readings = [CardsSeen(cards=(card(power=612.3), well))]
    probe = of_helper(FakeHelper(lambda _: readings[0]), clock)
    await probe.read()
    readings[0] = CardsSeen(cards=(card(trouble=LOST), well))
    await clock.advance(10)
    await probe.read()
    assert [(one.power_watts, one.age) for one in probe.samples or ()] == [(612.3, 10.0), (70, 0)]
    assert [one.unhealthy for one in probe.devices or ()] == [(LOST,), ()]


async def test_a_library_that_falls_silent_leaves_its_cards_as_unhealthy(clock):
    helper = FakeHelper(lambda _: CardsSeen(cards=(card(),)))
    probe = of_helper(helper, clock)
    await probe.read()
    helper.answering = silent
    with pytest.raises(TimedOut):
        await probe.read()
    assert only(probe.samples).uuid == UUID
    await clock.advance(61)
    assert only(probe.devices).unhealthy == (SILENT,)
    assert probe.samples == ()


async def test_a_card_in_mig_mode_with_nothing_carved_stays_out_of_placement(clock):
    bare = card(mig=True, instances=())
    probe = of_helper(FakeHelper(lambda _: CardsSeen(cards=(bare,))), clock)
    await probe.read()
    device = only(probe.devices)
    assert (device.mig_enabled, device.unhealthy) == (True, (NOTHING_CARVED,))


async def test_a_card_says_what_it_is_though_a_reading_lacks_it(clock):
    whole = card(compute_capability="9.0")
    readings = [CardsSeen(cards=(whole,))]
    probe = of_helper(FakeHelper(lambda _: readings[0]), clock)
    await probe.read()
    readings[0] = CardsSeen(cards=(msgspec.structs.replace(whole, name=None, memory_total=None),))
    await probe.read()
    assert only(probe.devices).device_class == "h100-80g"


async def test_instances_that_can_not_be_read_now_are_kept_as_unhealthy_and_the_probe_says_so(
    clock,
):
    carved = card(mig=True, instances=(Instance(index=0, uuid="MIG-a", profile="3g.40gb"),))
    unread = CardsSeen(cards=(card(mig=True, power=70.0),), trouble="nvidia-smi -L: no end")
    readings = [CardsSeen(cards=(carved,)), unread]
    probe = of_helper(FakeHelper(lambda _: readings[0]), clock)
    await probe.read()
    del readings[0]
    with pytest.raises(Unreadable, match="-L: no end"):
        await probe.read()
    whole, instance = probe.devices or ()
    assert (whole.unhealthy, instance.uuid, instance.unhealthy) == ((), "MIG-a", (IN_DOUBT,))
    assert [sample.power_watts for sample in probe.samples or ()] == [70.0]
    readings[0] = CardsSeen(cards=(carved,))
    await probe.read()
    assert [device.unhealthy for device in probe.devices or ()] == [(), ()]


class Slow:
    """A helper that answers each question, after a time."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    async def ask(self, request, answer, *, silence, progress=None):
        await self._clock.sleep(min(self._seconds, silence))
        if self._seconds > silence:
            raise TimedOut(f"nvml_side: no answer within {silence:g} s")
        return CardsSeen(cards=(card(),), driver="550.54.15")

    async def close(self) -> None:
        """Do nothing."""


async def through(minutes: float, probes, clock: FakeClock) -> tuple[set[bool], set[int]]:
    """Run probes; return whether the card was ever out of order, and how many had readings."""
    out_of_order, told = set(), set()
    probings = [Probing(one, clock) for one in probes.all]
    running = [asyncio.ensure_future(one.run()) for one in probings]
    try:
        await clock.advance(60)
        for _ in range(int(minutes * 60)):
            await clock.advance(1)
            out_of_order.add(bool(only(probes.cards.devices or ()).unhealthy))
            heartbeat = Heartbeat(sequence=1)
            for one in probes.all:
                heartbeat = one.onto_heartbeat(heartbeat)
            told.add(len(heartbeat.devices or ()))
    finally:
        for one in running:
            one.cancel()
        for probing in probings:
            await probing.close()
    return out_of_order, told


async def test_a_driver_that_answers_each_question_after_nineteen_seconds_is_not_silent(clock):
    slow = Slow(clock, 19.0)
    probes = card_probes(slow, FakeProcesses(MemoryFiles()), frozenset, clock)
    assert await through(15, probes, clock) == ({False}, {1})


class SlowProcesses(FakeProcesses):
    """Tools that take their time."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__(MemoryFiles())
        self._clock = clock
        self._seconds = seconds

    async def run(self, argv, **more):
        await self._clock.sleep(self._seconds)
        return await super().run(argv, **more)


async def test_a_tool_that_takes_fourteen_seconds_a_run_does_not_make_a_card_silent(smi, clock):
    processes = SlowProcesses(clock, 14.0)
    processes.on_run = smi
    probes = card_probes(FakeHelper(no_library), processes, frozenset, clock)
    assert await through(15, probes, clock) == ({False}, {1})


async def test_a_slow_driver_that_falls_silent_is_found_out(clock):
    slow = Slow(clock, 19.0)
    probes = card_probes(slow, FakeProcesses(MemoryFiles()), frozenset, clock)
    assert await through(3, probes, clock) == ({False}, {1})
    slow._seconds = 3600.0
    # From a minute after it was asked in vain on, and without a break.
    await through(1, probes, clock)
    assert await through(3, probes, clock) == ({True}, {0})
    assert only(probes.cards.devices or ()).unhealthy == (SILENT,)
