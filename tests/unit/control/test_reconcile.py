"""From a catalog to running replicas and back: planned, checked, sent, and nothing sent twice."""

import pytest

from llmgw.control.plane import Plane
from llmgw.model.commands import Declined, StartShard, StopShard
from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.node import LOST, READY
from llmgw.model.record import Problem
from llmgw.model.shard import STARTING
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def sent(plane: Plane) -> list[tuple[str, str]]:
    return [(one.kind, one.node) for one in plane.executor.sent]


def sentence(plane: Plane) -> str | None:
    last = plane.passes["reconcile"].last
    assert last is not None
    return last.sentence


async def test_a_wanted_model_is_started_and_nothing_more_is_sent(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        start = agent.requests(StartShard)[0]
        assert isinstance(start, StartShard)
        assert (start.spec.model, start.spec.memory_bytes) == ("tiny", 10**9)
        assert start.key == plane.key_of(start.spec.replica)
        assert [replica.state for replica in plane.fleet.replicas()] == [READY]
        await pass_time(clock, 60, [agent])
        assert sent(plane) == [("start", "n1")]
        assert sentence(plane) == "nothing to do: 1 replica of 1 model runs"
        assert plane.last_plan is not None
        assert plane.last_plan.steps == ()


async def test_a_removed_model_leaves_the_routes_before_its_process_is_told(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        assert len(plane.fleet.routes()[0].endpoints) == 1
        await plane.settings.put("serving.stopped", True, actor="me")
        await settle()
        assert plane.fleet.routes()[0].endpoints == ()
        assert [replica.state for replica in plane.fleet.replicas()] == ["draining"]
        assert agent.requests(StopShard) == []
        await clock.advance(1.4)
        assert agent.requests(StopShard) == []
        await clock.advance(0.2)
        assert len(agent.requests(StopShard)) == 1
        assert plane.fleet.replicas() == ()
        assert sent(plane) == [("start", "n1"), ("stop", "n1")]


async def test_a_start_command_that_is_lost_is_planned_again(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        agent.silent = True
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await pass_time(clock, 28, [agent], every=1)
        assert sent(plane) == [("start", "n1")]
        agent.silent = False
        await pass_time(clock, 20, [agent], every=1)
        assert sent(plane) == [("start", "n1"), ("start", "n1")]
        assert [replica.state for replica in plane.fleet.replicas()] == [READY]


async def test_a_stop_command_that_is_lost_is_planned_again(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        agent.silent = True
        await plane.catalog.remove("tiny", actor="me")
        await pass_time(clock, 20, [agent], every=1)
        assert sent(plane)[1:] == [("stop", "n1")]
        agent.silent = False
        await pass_time(clock, 30, [agent], every=1)
        assert sent(plane)[1:] == [("stop", "n1"), ("stop", "n1")]
        assert plane.fleet.replicas() == ()


async def test_a_shard_that_its_node_does_not_know_is_gone(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        agent.declines = Declined(words="no such shard", not_found=True)
        await plane.catalog.remove("tiny", actor="me")
        await pass_time(clock, 3, [agent], every=1)
        assert plane.fleet.replicas() == ()
        assert sent(plane) == [("start", "n1"), ("stop", "n1")]


async def test_a_refused_start_is_counted_and_waits_before_the_next(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        agent.declines = Declined(words="no port is free")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await pass_time(clock, 3, [agent], every=1)
        assert sent(plane) == [("start", "n1")]
        failure = plane.fleet.observed().failures[0]
        assert (failure.count, failure.words) == (1, "n1: no port is free")
        assert "no port is free" in (plane.fleet.routes()[0].reason or "")
        await pass_time(clock, 6, [agent], every=1)
        assert len(sent(plane)) == 2


async def test_no_device_is_given_out_twice_in_one_plan_or_between_two(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("g1", devices=2)
        agent.loads = True
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(replicas=3, gpus=1), None, actor="me")
        await pass_time(clock, 10, [agent], every=1)
        starts = [one for one in agent.requests(StartShard) if isinstance(one, StartShard)]
        given = [uuid for one in starts for uuid in one.spec.devices]
        assert sorted(given) == ["GPU-g1-0", "GPU-g1-1"]
        assert "can't place tiny" in (sentence(plane) or "")


async def test_nothing_is_started_on_a_node_that_went_away_between_plan_and_execution(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await agent.sever()
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        assert sent(plane) == []
        assert "n1 has no stream now" in (sentence(plane) or "")
        assert plane.fleet.observed().failures == ()
        assert plane.fleet.replicas() == ()


async def test_a_node_that_returns_is_adopted_with_no_start_and_no_stop(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        before = sent(plane)
        replica = plane.fleet.replicas()[0].id
        await agent.sever()
        await pass_time(clock, 90)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.liveness == LOST
        await agent.connect(plane.agents)
        await pass_time(clock, 60, [agent])
        assert sent(plane) == before
        assert [r.id for r in plane.fleet.replicas()] == [replica]


async def test_a_restarted_control_plane_rebuilds_its_replicas_and_sends_nothing(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    agents = [FakeAgent("n1"), FakeAgent("n2")]
    async with running(plane):
        for agent in agents:
            await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(replicas=2), None, actor="me")
        await settle()
        before = {replica.id for replica in plane.fleet.replicas()}
        assert len(before) == 2
    for agent in agents:
        await agent.sever()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        assert again.term == plane.term + 1
        assert again.epoch != plane.epoch
        assert sentence(again) == "settling: waits for n1, n2 to report before it does anything"
        await agents[0].connect(again.agents)
        await pass_time(clock, 5, agents[:1])
        assert sent(again) == []
        await agents[1].connect(again.agents)
        await pass_time(clock, 60, agents)
        assert {replica.id for replica in again.fleet.replicas()} == before
        assert sent(again) == []
        assert again.key_of("x") == plane.key_of("x")


async def test_after_the_settling_period_a_node_that_stays_away_is_not_waited_for(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    one, other = FakeAgent("n1"), FakeAgent("n2")
    async with running(plane):
        await one.connect(plane.agents)
        await other.connect(plane.agents)
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await again.catalog.put(cpu_model(), None, actor="me")
        await one.connect(again.agents)
        await pass_time(clock, 14, [one])
        assert sent(again) == []
        await pass_time(clock, 4, [one], every=1)
        assert sent(again) == [("start", "n1")]


async def test_a_model_that_left_while_the_control_plane_was_down_is_stopped_after(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    agent = FakeAgent("n1")
    async with running(plane):
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
    await agent.sever()
    await store.remove_model("tiny", actor="me", at=clock.now())
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await agent.connect(again.agents)
        await pass_time(clock, 5, [agent], every=1)
        assert sent(again) == [("stop", "n1")]
        assert agent.shards == {}


async def test_commands_carry_the_new_term_after_a_restart(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    agent = FakeAgent("n1")
    async with running(plane):
        await agent.connect(plane.agents)
    again = make_plane(clock, store, seed=8)
    async with running(again):
        agent.highest_term = plane.term
        await agent.connect(again.agents)
        await again.catalog.put(cpu_model(), None, actor="me")
        await settle()
        assert agent.commands[-1].term == again.term == plane.term + 1


async def test_every_step_is_an_event_with_the_plans_words(plane: Plane) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        told = [event.words for event in plane.events.recent() if event.kind == "placement"]
        assert len(told) == 1
        (replica,) = plane.fleet.replicas()
        assert told[0].startswith(f"starts {replica.id}: 1 wanted, 0 there")


async def test_a_changed_profile_is_rolled_and_the_old_replica_shown_as_stale(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        old = plane.fleet.replicas()[0]
        agent.loads = True
        await plane.catalog.put(cpu_model(context=4096), None, actor="me")
        await settle()
        states = {r.id: (r.state, r.stale) for r in plane.fleet.replicas()}
        assert states.pop(old.id) == (READY, True)
        assert list(states.values()) == [(STARTING, False)]
        agent.ready()
        await pass_time(clock, 10, [agent], every=1)
        assert [(r.id != old.id, r.stale) for r in plane.fleet.replicas()] == [(True, False)]


async def test_explain_says_why_for_each_node(plane: Plane) -> None:
    async with running(plane):
        await FakeAgent("n1").connect(plane.agents)
        await plane.catalog.put(cpu_model(node_selector={"zone": "b"}), None, actor="me")
        await settle()
        candidates = plane.foresight.explain("tiny")
        assert [(one.node, one.verdict.rule) for one in candidates] == [("n1", "labels")]
        assert plane.last_plan is not None
        assert len(plane.last_plan.refusals) == 1
        assert "zone" in (plane.fleet.routes()[0].reason or "")


async def test_a_shard_of_a_model_nobody_described_is_left_alone(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        agent.runs(spec_of(cpu_model(), "tiny-aaa111"))
        bare = agent.shards["tiny-aaa111", 0]
        agent.shards["tiny-aaa111", 0] = type(bare)(replica="tiny-aaa111", state=READY)
        await agent.connect(plane.agents)
        await pass_time(clock, 30, [agent])
        assert sent(plane) == []


async def test_a_device_that_a_stranger_holds_is_refused_with_the_stranger_named(
    plane: Plane,
) -> None:
    async with running(plane):
        agent = FakeAgent("gpu-01", devices=1)
        await agent.connect(plane.agents)
        uuid = (agent.inventory.devices or ())[0].uuid
        stranger = ForeignProcess(pid=4711, command="train.py", memory_bytes=70 * 10**9)
        agent.beat(devices=(DeviceSample(uuid=uuid, foreign=(stranger,)),))
        await settle()
        await plane.catalog.put(cpu_model(gpus=1), None, actor="me")
        await settle()
        assert sent(plane) == []
        assert "train.py" in plane.foresight.explain("tiny")[0].verdict.words


async def test_a_plan_that_is_not_sound_is_a_pass_that_fails_and_does_nothing(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(path="steps[0]", words="pre-empts its better")
    monkeypatch.setattr("llmgw.control.tasks.reconcile.check", lambda *_: (problem,))
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        last = plane.passes["reconcile"].last
        assert last is not None
        assert "is not sound and was not carried out: steps[0]: pre-empts" in (last.error or "")
        assert sent(plane) == []
