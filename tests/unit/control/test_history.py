"""The hour in memory: bounded, and a step at which nothing was measured is a gap."""

import asyncio
import math
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.control import ring
from llmgw.control.history import LENGTH, MOST_DEVICES, STEP, History
from llmgw.control.tasks.history import KeepHistory
from llmgw.model.device import DeviceSample
from llmgw.model.history import DEVICE_MEASURES, NAMES, NODE_MEASURES, Series, Values
from llmgw.model.node import Heartbeat, Node, Sample
from llmgw.model.work import POWER, SM_ACTIVE
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import GB, NOW, RecordedFleet
from tests.fakes.fleets import gpu8
from tests.fakes.plane import FakePlane
from tests.fakes.planes import make_plane, pass_time, running
from tests.fakes.scripted_agent import FakeAgent

UNITS = ("percent", "bytes", "watts", "celsius", "load")


def sample(
    *devices: DeviceSample, at: float = NOW, cpu: float | None = 50.0, node: str = "a"
) -> Sample:
    return Sample(id=node, at=at, heartbeat=Heartbeat(sequence=1, cpu_percent=cpu, devices=devices))


def values(history: History, name: str, device: str | None = None, node: str = "a") -> Values:
    (found,) = [one for one in history.of(node, (name,)) if one.device == device]
    return found.values


def steps(history: History, *samples: Sample | None) -> None:
    """Take one sample a step, each as fresh as can be; None: the node was not heard."""
    for one in samples:
        history.begin(history.tick + 1, NOW)
        if one is not None:
            history.keep(one)
        history.end()


async def beats(clock: FakeClock, agent: FakeAgent, seconds: float) -> None:
    """Let time pass while an agent measures its CPU."""
    for _ in range(round(seconds / 5)):
        agent.beat(cpu_percent=12.0)
        await pass_time(clock, 5.0)


@given(st.lists(st.none() | st.floats(-100, 60_000), max_size=40))
def test_a_ring_tells_the_last_readings_as_close_as_a_chart_needs(
    given: list[float | None],
) -> None:
    kept = ring.empty(7)
    for tick, value in enumerate(given):
        ring.put(kept, tick, value, "percent")
    told = ring.read(kept, len(given) - 1, "percent")
    wanted = [*([None] * 7), *given][-7:]
    for before, after in zip(wanted, told, strict=True):
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert after == pytest.approx(before, rel=1 / 1024, abs=0.01)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("value", [0.0, 1.0, 99.9, 640.0])
def test_zero_is_kept_as_zero_and_nothing_as_nothing(unit: str, value: float) -> None:
    kept = ring.empty(2)
    wanted = value * GB if unit == "bytes" else value
    ring.put(kept, 0, wanted, unit)
    ring.put(kept, 1, None, unit)
    told, gap = ring.read(kept, 1, unit)
    assert told == pytest.approx(wanted, rel=1 / 1024)
    assert gap is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_a_gap(value: float) -> None:
    kept = ring.empty(1)
    ring.put(kept, 0, value, "percent")
    assert ring.read(kept, 0, "percent") == (None,)


def test_what_is_larger_than_a_ring_can_say_is_the_most_it_can() -> None:
    kept = ring.empty(1)
    ring.put(kept, 0, 1e9, "watts")
    assert ring.read(kept, 0, "watts") == (65504.0,)


def test_a_node_of_eight_cards_takes_less_than_sixty_kilobytes_an_hour() -> None:
    (recorded,) = [one for one in gpu8().topics["samples"].values() if isinstance(one, Sample)]
    cards = tuple(
        DeviceSample(uuid=f"GPU-{card}", busy_percent=1.0, power_watts=1.0) for card in range(8)
    )
    beat = msgspec.structs.replace(recorded.heartbeat, devices=cards)
    history = History()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for tick in range(2 * LENGTH):
            history.begin(tick, NOW)
            history.keep(Sample(id="a", at=NOW, heartbeat=beat))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert history.bytes_per_node < 60_000
    assert taken == pytest.approx(history.bytes_per_node, rel=0.2)
    assert len(history.of("a")) == len(NODE_MEASURES) + 8 * len(DEVICE_MEASURES)


def test_a_step_without_a_reading_is_a_gap_and_not_the_one_before() -> None:
    history = History(length=5)
    steps(history, sample(cpu=10.0), None, sample(cpu=None), sample(cpu=0.0))
    assert values(history, "cpu") == (None, 10.0, None, None, 0.0)


def test_a_node_that_fell_silent_has_gaps_until_now() -> None:
    history = History(length=4)
    steps(history, sample(cpu=10.0), None, None)
    assert values(history, "cpu") == (None, 10.0, None, None)
    steps(history, *[None] * 9)
    assert values(history, "cpu") == (None,) * 4


def test_steps_that_were_never_taken_are_gaps() -> None:
    history = History(length=6)
    for tick in (1, 4):
        history.begin(tick, NOW)
        history.keep(sample(DeviceSample(uuid="g", busy_percent=7.0), cpu=10.0))
        history.end()
    assert values(history, "cpu") == (None, None, 10.0, None, None, 10.0)
    assert values(history, "busy", "g") == (None, None, 7.0, None, None, 7.0)
    history.begin(400, NOW)
    history.keep(sample(cpu=20.0))
    history.end()
    assert values(history, "cpu") == (None, None, None, None, None, 20.0)


def test_a_reading_older_than_a_minute_is_not_repeated() -> None:
    history = History(length=3)
    old = DeviceSample(uuid="g", busy_percent=9.0, age=50.0)
    steps(history, sample(old, at=NOW - 5), sample(old, at=NOW - 20), sample(at=NOW - 61, cpu=1.0))
    assert values(history, "cpu") == (50.0, 50.0, None)
    assert values(history, "busy", "g") == (9.0, None, None)


def test_while_a_step_is_taken_the_nodes_still_to_come_show_no_gap() -> None:
    history = History(length=3)
    steps(history, sample(cpu=1.0), sample(cpu=2.0))
    history.begin(3, NOW)
    assert values(history, "cpu") == (None, 1.0, 2.0)
    history.end()
    assert values(history, "cpu") == (1.0, 2.0, None)


def test_a_device_that_is_gone_for_the_whole_time_is_let_go() -> None:
    history = History(length=4)
    card = DeviceSample(uuid="g", busy_percent=5.0)
    steps(history, sample(card), sample(), sample(), sample())
    assert values(history, "busy", "g") == (5.0, None, None, None)
    history.begin(5, NOW)
    history.keep(sample())
    assert [one.device for one in history.of("a") if one.device] == []


def test_devices_that_come_and_go_are_bounded_and_the_newest_stay() -> None:
    history = History(length=LENGTH)
    for tick in range(1, 200):
        history.begin(tick, NOW)
        history.keep(sample(DeviceSample(uuid=f"mig-{tick}", memory_used_bytes=GB)))
    devices = {one.device for one in history.of("a") if one.device}
    assert len(devices) == MOST_DEVICES
    assert "mig-199" in devices
    assert "mig-1" not in devices


def test_work_says_what_it_was_made_of_the_newest_first() -> None:
    history = History(length=3)
    draw = DeviceSample(uuid="g", power_watts=350.0, power_limit_watts=700.0)
    active = DeviceSample(uuid="g", sm_active_percent=80.0)
    steps(history, sample(draw), sample(active))
    (told,) = history.of("a", ("work",))
    assert told.values == (None, 50.0, 80.0)
    assert told.made_of == (SM_ACTIVE, POWER)
    steps(history, *[sample(draw)] * 5)
    assert history.of("a", ("work",))[0].made_of == (POWER,)
    assert history.of("a", ("busy",))[0].made_of is None


def test_a_removed_node_is_forgotten_and_an_unknown_one_is_all_gaps() -> None:
    history = History(length=3)
    steps(history, sample(), sample(node="b"))
    history.only({"b"})
    assert history.nodes == 1
    assert values(history, "cpu", node="a") == (None, None, None)
    assert [one.name for one in history.of("a")] == [one.name for one in NODE_MEASURES]


def test_names_and_points_choose_what_is_told() -> None:
    history = History(length=5)
    steps(history, *[sample(DeviceSample(uuid="g", busy_percent=1.0))] * 5)
    told = history.of("a", ("busy", "cpu"), points=2)
    assert told == (
        Series(name="cpu", unit="percent", values=(50.0, 50.0)),
        Series(name="busy", device="g", unit="percent", values=(1.0, 1.0)),
    )
    assert {one.name for one in history.of("a")} == set(NAMES)


async def test_the_pass_keeps_one_reading_a_step_and_a_lost_node_leaves_a_gap() -> None:
    clock = FakeClock()
    async with running(make_plane(clock)) as plane:
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        await beats(clock, agent, 65.0)
        before = values(plane.history, "cpu", node="n1")
        assert sum(value is not None for value in before) == 60 / STEP
        await pass_time(clock, 120.0)
        after = values(plane.history, "cpu", node="n1")
        assert after[-1] is None
        said = plane.passes["history"].last
        assert said is not None
        assert said.error is None
        assert "the last hour of 1 node, " in (said.sentence or "")
        assert " kB each" in (said.sentence or "")


async def test_a_new_control_plane_starts_with_an_empty_hour() -> None:
    clock = FakeClock()
    async with running(make_plane(clock)) as plane:
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        await beats(clock, agent, 30.0)
        assert plane.history.nodes == 1
        store = plane.store
    async with running(make_plane(clock, store, seed=8)) as after:
        assert after.history.nodes == 0
        again = FakeAgent("n1", devices=1)
        await again.connect(after.agents)
        await beats(clock, again, 15.0)
        told = values(after.history, "cpu", node="n1")
        assert sum(value is not None for value in told) == 1
        assert len(told) == LENGTH


async def test_a_fleet_is_kept_in_slices_that_let_others_run() -> None:
    history, clock = History(), FakeClock(NOW)
    samples = [sample(node=f"n{number}") for number in range(120)]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    recorded = RecordedFleet()
    for one in samples:
        recorded.add("nodes", one.id, Node(id=one.id, liveness="ready"))
        recorded.add("samples", one.id, one)
    plane = FakePlane(recorded, clock)
    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    before = turns
    await KeepHistory(plane.fleet, history, clock).run()
    task.cancel()
    assert history.nodes == 120
    assert turns - before == 2
