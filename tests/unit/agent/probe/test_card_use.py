"""Who holds the cards' memory: own engines are not foreign, and placement's words follow."""

import msgspec
import pytest

from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.node import Heartbeat
from llmgw_agent.parse.cards import CardProcess, CardsSeen, Instance
from llmgw_agent.probe.card_reader import CardReader
from llmgw_agent.probe.card_request import USE, ReadCards
from llmgw_agent.probe.card_use import CardUseProbe
from tests.fakes.cards import OTHER, UUID, card
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses(MemoryFiles())


def probe_of(
    helper: FakeHelper, processes: FakeProcesses, clock: FakeClock, own: set[int]
) -> CardUseProbe:
    reader = CardReader(helper, processes, clock)
    return CardUseProbe(reader, processes, lambda: frozenset(own), clock)


def held_by(*pids: int, uuid: str = UUID, used: int = 5) -> CardsSeen:
    found = tuple(
        CardProcess(pid=pid, name="python" if pid == 78 else None, memory_bytes=1) for pid in pids
    )
    return CardsSeen(cards=(card(uuid=uuid, memory_used=used, processes=found),))


async def test_an_engines_own_processes_are_not_foreign_and_others_are(processes, clock):
    processes.add(["llama-server"], {}, pid=70)
    processes.add(["worker"], {}, pid=77, group=70)
    processes.add(["python"], {}, pid=78)
    own = {70}
    helper = FakeHelper(lambda _: held_by(77, 78))
    probe = probe_of(helper, processes, clock, own)
    assert await probe.read() == "1 NVIDIA card"
    assert helper.asked == [ReadCards(part=USE)]
    assert only(probe.samples).foreign == (
        ForeignProcess(pid=78, command="python", memory_bytes=1),
    )
    assert probe.holders((UUID,)) == "python (pid 78) holds 1 B"
    own.clear()
    await probe.read()
    assert [process.pid for process in only(probe.samples).foreign or ()] == [77, 78]
    assert probe.holders((OTHER,)) is None


async def test_an_engine_on_an_instance_is_not_foreign_there(processes, clock):
    processes.add(["llama-server"], {}, pid=70)
    processes.add(["python"], {}, pid=78)
    found = (CardProcess(pid=70), CardProcess(pid=78, name="python", memory_bytes=1))
    cut = card(mig=True, processes=(), instances=(Instance(uuid="MIG-a", processes=found),))
    helper = FakeHelper(lambda _: CardsSeen(cards=(cut,)))
    probe = probe_of(helper, processes, clock, {70})
    await probe.read()
    whole, part = probe.samples
    assert (whole.foreign, [process.pid for process in part.foreign or ()]) == ((), [78])
    assert probe.holders(("MIG-a",)) == "python (pid 78) holds 1 B"


async def test_memory_and_processes_are_put_into_the_cards_readings(processes, clock):
    probe = probe_of(FakeHelper(lambda _: held_by(78, used=9)), processes, clock, set())
    await probe.read()
    await clock.advance(2)
    older = DeviceSample(uuid=UUID, power_watts=80.0, memory_used_bytes=3, age=7.0)
    told = probe.onto_heartbeat(Heartbeat(sequence=1, devices=(older,)))
    sample = only(told.devices)
    assert (sample.power_watts, sample.memory_used_bytes, sample.age) == (80.0, 9, 7.0)
    assert [process.pid for process in sample.foreign or ()] == [78]
    # A device of which nothing else was measured is told of with these alone.
    alone = only(probe.onto_heartbeat(Heartbeat(sequence=2, devices=())).devices)
    assert (alone.memory_used_bytes, alone.power_watts, alone.age) == (9, None, 2.0)


async def test_what_is_older_than_a_minute_is_not_told(processes, clock):
    readings: list[CardsSeen | TimedOut] = [held_by(78)]
    probe = probe_of(FakeHelper(lambda _: readings[0]), processes, clock, set())
    await probe.read()
    readings[0] = TimedOut("no answer")
    with pytest.raises(TimedOut):
        await probe.read()
    assert only(probe.samples).uuid == UUID
    await clock.advance(61)
    assert probe.samples == ()
    beat = Heartbeat(sequence=1, devices=(DeviceSample(uuid=UUID, power_watts=80.0),))
    assert probe.onto_heartbeat(beat) == beat
    assert probe.holders((UUID,)) is None


@pytest.mark.parametrize(
    "seen",
    [CardsSeen(warning="reboot"), CardsSeen(cards=(card(),), cut=True)],
    ids=["warning", "cut"],
)
async def test_an_answer_that_tells_of_nobody_is_not_taken_for_nobody(processes, clock, seen):
    readings = [held_by(78)]
    probe = probe_of(FakeHelper(lambda _: readings[0]), processes, clock, set())
    await probe.read()
    readings[0] = seen
    with pytest.raises(Unreadable):
        await probe.read()
    assert probe.holders((UUID,)) is not None


async def test_a_tool_that_vanishes_is_told_once_cards_are_known(processes, clock):
    answers: list[CardsSeen | NotFound] = [held_by(78)]
    processes.on_run = lambda argv: NotFound("nvidia-smi: no such program")
    probe = probe_of(FakeHelper(lambda _: answers[0]), processes, clock, set())
    await probe.read()
    answers[0] = NotFound("gone")
    with pytest.raises(NotFound):
        await probe.read()
    assert probe.period == 5.0


async def test_instances_that_can_not_be_read_fail_the_probe_and_leave_the_rest(processes, clock):
    told = msgspec.structs.replace(held_by(78, used=7), trouble="nvidia-smi -q -x: no end")
    probe = probe_of(FakeHelper(lambda _: told), processes, clock, set())
    with pytest.raises(Unreadable, match="-q -x: no end"):
        await probe.read()
    assert only(probe.samples).memory_used_bytes == 7
