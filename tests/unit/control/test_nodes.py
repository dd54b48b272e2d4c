"""Nodes: silence and its verdicts, what a register says and does not, what is told of changes."""

import pytest

from llmgw.control.liveness import liveness, next_change
from llmgw.control.plane import Plane
from llmgw.model.events import PROBLEM, WARNING
from llmgw.model.feed import NODES, REPLICAS, SAMPLES
from llmgw.model.node import (
    LOST,
    READY,
    UNREACHABLE,
    Heartbeat,
    InstalledEngine,
    Inventory,
    NodeWarning,
    WeightsHeld,
)
from llmgw.store.interface import StoredNode
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, pass_time, running, spec_of
from tests.fakes.scripted_agent import GB, FakeAgent, device


@pytest.mark.parametrize(
    ("age", "verdict"),
    [(0, READY), (14.9, READY), (15, UNREACHABLE), (59.9, UNREACHABLE), (60, LOST), (1e6, LOST)],
)
def test_liveness_is_a_function_of_age_alone(age: float, verdict: str) -> None:
    assert liveness(age, 5.0, 60.0) == verdict


def test_a_node_is_lost_at_once_when_it_is_lost_before_it_would_be_unreachable() -> None:
    assert liveness(30, 20.0, 10.0) == READY
    assert liveness(60, 20.0, 10.0) == LOST


@pytest.mark.parametrize(("age", "left"), [(0, 15.0), (10, 5.0), (15, 45.0), (60, None)])
def test_the_next_change_is_known_beforehand(age: float, left: float | None) -> None:
    assert next_change(age, 5.0, 60.0) == left


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock)


def liveness_of(plane: Plane, node: str) -> str | None:
    known = plane.fleet.node(node)
    assert known is not None
    return known.liveness


def words(plane: Plane, subject: str) -> list[str]:
    return [event.words for event in plane.events.recent() if event.subject == subject]


async def test_a_registered_node_is_ready_with_all_that_it_said(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01", devices=2)
        await agent.connect(plane.agents)
        node = plane.fleet.node("gpu-01")
    assert node is not None
    assert (node.liveness, node.connected, node.peer) == (READY, True, "gpu-01:50001")
    assert node.inventory == agent.inventory
    assert (node.labels, node.since, node.last_heard) == ({"zone": "a"}, clock.now(), None)
    assert [w.term for w in agent.welcomes] == [plane.term]
    assert agent.welcomes[0].settings == plane.settings.for_node()


async def test_a_silent_node_is_unreachable_after_three_intervals_and_lost_after_a_minute(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        heard = clock.now()
        await agent.sever()
        states = {}
        for second in range(1, 63):
            await clock.advance(1)
            states[second] = liveness_of(plane, "gpu-01")
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert not node.connected
        assert (states[14], states[15], states[59], states[60]) == (
            READY,
            UNREACHABLE,
            UNREACHABLE,
            LOST,
        )
        assert node.last_heard == heard
        assert words(plane, "gpu-01")[-2:] == [
            "gpu-01 is unreachable: last heard 15s ago",
            "gpu-01 is lost: last heard 1m00s ago",
        ]


async def test_a_stream_that_is_cut_at_that_very_moment_hides_nothing(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        stream = await agent.connect(plane.agents)
        await clock.advance(15)
        stream.sever()  # as the link cuts a peer that was silent for three intervals
        await agent.gone()
        await clock.advance(0.1)
        assert words(plane, "gpu-01")[-1] == "gpu-01 is unreachable: last heard 15s ago"
        await clock.advance(44.8)
        await plane.membership.set_wish("gpu-01", "cordoned", actor="me")
        await clock.advance(100)
        assert words(plane, "gpu-01")[2:] == [
            "gpu-01 is cordoned",
            "gpu-01 is lost: last heard 1m00s ago",
        ]


async def test_what_a_silent_node_has_is_told_with_it(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.runs(spec_of(cpu_model(), "tiny-aaa111"))
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await agent.sever()
        await clock.advance(61)
        told = [one for one in plane.events.recent() if one.subject == "gpu-01"]
        assert [(one.severity, one.words) for one in told[-2:]] == [
            (WARNING, "gpu-01 is unreachable: last heard 15s ago; it has tiny-aaa111"),
            (PROBLEM, "gpu-01 is lost: last heard 1m00s ago; it has tiny-aaa111"),
        ]


async def test_a_node_that_is_heard_again_on_the_same_stream_is_told_to_be_back(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        await clock.advance(15.5)
        agent.beat()
        await settle()
        agent.beat()
        await settle()
        assert words(plane, "gpu-01")[1:] == [
            "gpu-01 is unreachable: last heard 15s ago",
            "gpu-01 is back (unreachable, last heard 15s ago)",
        ]
        await clock.advance(16)
        assert words(plane, "gpu-01")[3:] == ["gpu-01 is unreachable: last heard 15s ago"]


async def test_the_change_to_unreachable_is_marked_within_a_second_of_the_moment(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        with plane.feed.follow([NODES]) as follower:
            follower.take()
            await clock.advance(14.9)
            assert follower.take() is None
            await clock.advance(0.3)
            batch = follower.take()
    assert batch is not None
    assert [change.id for change in batch.changes] == ["gpu-01"]


async def test_the_liveness_pass_sleeps_while_every_node_beats(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = [FakeAgent(f"n{number}") for number in range(20)]
        for agent in agents:
            await agent.connect(plane.agents)
        before = plane.passes["liveness"].passes
        await pass_time(clock, 300, agents)
        assert plane.passes["liveness"].passes - before <= 300 / 10 + 1
        assert {node.liveness for node in plane.fleet.nodes()} == {READY}


async def test_a_node_that_returns_is_ready_at_once_and_its_silence_is_told(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        await agent.sever()
        await clock.advance(20)
        await agent.connect(plane.agents)
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert (node.liveness, node.since) == (READY, clock.now())
        assert "gpu-01 is back (unreachable, last heard 20s ago)" in words(plane, "gpu-01")
        assert plane.agents.opened == 2


async def test_a_heartbeat_changes_the_sample_and_not_the_node(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        with plane.feed.follow([NODES, SAMPLES, REPLICAS]) as follower:
            follower.take()
            for _ in range(3):
                await pass_time(clock, 5, [agent])
            batch = follower.take()
        assert batch is not None
        assert [(c.topic, c.id) for c in batch.changes] == [(SAMPLES, "gpu-01")]
        sample = plane.fleet.sample("gpu-01")
        assert sample is not None
        assert (sample.heartbeat.sequence, sample.at) == (3, clock.now())


async def test_memory_that_grew_reaches_the_inventory_and_is_told(plane: Plane) -> None:
    async with running(plane):
        agent = FakeAgent("vm-1")
        await agent.connect(plane.agents)
        agent.beat(memory_bytes=32 * GB)
        await settle()
        node = plane.fleet.node("vm-1")
        assert node is not None
        assert node.inventory.host is not None
        assert node.inventory.host.memory_bytes == 32 * GB
        assert node.inventory.host.cpus == 8
        assert words(plane, "vm-1")[-1] == "vm-1 memory 16 GB → 32 GB"


async def test_what_a_message_does_not_say_changes_nothing(plane: Plane) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01", devices=2)
        agent.inventory = Inventory(
            host=agent.inventory.host,
            devices=agent.inventory.devices,
            engines=agent.inventory.engines,
            weights=(WeightsHeld(name="w1"),),
        )
        await agent.connect(plane.agents)
        before = plane.fleet.node("gpu-01")
        agent.say(inventory=Inventory(engines_probed=True))
        agent.beat()
        await settle()
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert before is not None
        assert node.inventory.engines_probed is True
        assert node.inventory.devices == before.inventory.devices
        assert node.inventory.weights == (WeightsHeld(name="w1"),)


async def test_an_empty_list_that_is_said_empties(plane: Plane) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01", devices=2)
        await agent.connect(plane.agents)
        agent.say(inventory=Inventory(devices=(), engines=()))
        await settle()
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert (node.inventory.devices, node.inventory.engines) == ((), ())
        assert words(plane, "gpu-01")[-1] == (
            "gpu-01 gpu0, gpu1 (H100) are gone; llamacpp 0.10434.0 is gone"
        )


async def test_an_agent_that_says_nothing_of_its_shards_keeps_what_was_known(
    plane: Plane,
) -> None:
    async with running(plane):
        model = cpu_model()
        agent = FakeAgent("n1")
        agent.runs(spec_of(model, "tiny-aaa111"))
        await agent.connect(plane.agents)
        agent.says_shards = False
        await agent.connect(plane.agents)
        assert [replica.id for replica in plane.fleet.replicas()] == ["tiny-aaa111"]


async def test_health_names_warnings_sick_devices_and_failed_installations(
    plane: Plane,
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        sick = device("gpu-01", 0)
        agent.say(
            inventory=Inventory(
                devices=(type(sick)(uuid=sick.uuid, number=0, unhealthy=("fell off the bus",)),),
                warnings=(NodeWarning(subject="pci", words="x8 instead of x16"),),
                engines=(InstalledEngine(engine="vllm", state="failed", words="no space"),),
            )
        )
        await settle()
        node = plane.fleet.node("gpu-01")
    assert node is not None
    assert node.health == (
        "pci: x8 instead of x16",
        "gpu0 (GPU-gpu-01-0): fell off the bus",
        "vllm: no space",
    )


async def test_an_engine_that_was_installed_is_told_as_the_answer_to_why_now(
    plane: Plane,
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        agent.inventory = Inventory(
            engines=(InstalledEngine(engine="llamacpp", version="1", state="installing"),)
        )
        await agent.connect(plane.agents)
        progress = InstalledEngine(engine="llamacpp", version="1", state="installing", words="9 %")
        agent.say(inventory=Inventory(engines=(progress,)))
        done = InstalledEngine(engine="llamacpp", version="1", state="installed")
        agent.say(inventory=Inventory(engines=(done,)))
        await settle()
        told = words(plane, "n1")
    assert told[-1] == "n1 llamacpp 1 is installed"
    assert not any("9 %" in line for line in told)


async def test_a_node_of_the_store_is_awaited_and_then_lost(clock: FakeClock) -> None:
    store = MemoryStore()
    store.node_rows["old"] = StoredNode(id="old", first_seen=1.0, last_seen=2.0, wish="cordoned")
    plane = make_plane(clock, store)
    async with running(plane):
        node = plane.fleet.node("old")
        assert node is not None
        assert (node.liveness, node.wish, node.last_heard) == (None, "cordoned", 2.0)
        assert plane.fleet.waiting_for() == ("old",)
        await clock.advance(61)
        node = plane.fleet.node("old")
        assert node is not None
        assert (node.liveness, node.last_heard) == (LOST, 2.0)
        assert plane.fleet.waiting_for() == ()


async def test_a_message_of_a_stream_that_was_replaced_is_not_taken(plane: Plane) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        old = await agent.connect(plane.agents)
        new = await agent.connect(plane.agents)
        assert old.aborted == "n1 opened a newer stream from n1:50001"
        plane.fleet.heartbeat("n1", 0, Heartbeat(sequence=99))
        plane.fleet.disconnected("n1", 0)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.connected
        assert plane.fleet.sample("n1") is None
        assert new.aborted is None


async def test_an_interval_that_an_agent_was_not_told_yet_does_not_make_it_unreachable(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        stream = await agent.connect(plane.agents)
        agent.silent = True
        await plane.settings.put("link.heartbeat_interval", 0.5, actor="me")
        await clock.advance(4)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.liveness == READY
        agent.silent = False
        await pass_time(clock, 20, [agent], every=0.5)
        assert stream.interval == 0.5
        await clock.advance(1.6)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.liveness == UNREACHABLE
