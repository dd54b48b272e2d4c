"""What is given up finishes what it serves before it is told to stop (REC-5)."""

import pytest

from llmgw.control.loads import GONE
from llmgw.control.plane import Plane
from llmgw.model.commands import StartShard, StopShard
from llmgw.model.gateway import LoadReport, ReplicaLoad
from llmgw.model.link import GatewayMessage, Pong
from llmgw.model.node import CORDONED, DRAINING
from llmgw.model.shard import ShardUse
from llmgw.plan.records import (
    Assignment,
    DrainReplica,
    KeepReplica,
    Plan,
    StartReplica,
    StopReplica,
)
from tests.fakes import planes
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent
from tests.unit.control.calling import Caller


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def says(plane: Plane, in_flight: int, gateway: str = "gw-1") -> None:
    """Let a gateway say what it has at every replica there is."""
    loads = tuple(
        ReplicaLoad(replica=one.id, in_flight=in_flight)
        for one in plane.fleet.replicas()
        if in_flight
    )
    planes.says(plane, LoadReport(gateway=gateway, replicas=loads))


async def served(plane: Plane, *agents: FakeAgent) -> str:
    """Have one replica of one model; return its id."""
    for agent in agents:
        await agent.connect(plane.agents)
    await plane.catalog.put(cpu_model(), None, actor="me")
    await settle()
    return plane.fleet.replicas()[0].id


def stops(agent: FakeAgent) -> list[str]:
    return [one.reason or "" for one in agent.requests(StopShard) if isinstance(one, StopShard)]


def routed(plane: Plane) -> list[str]:
    """Return the replicas that requests for the one model go to."""
    return [one.replica for one in plane.fleet.routes()[0].endpoints]


async def test_a_replica_is_stopped_when_its_last_reply_ended(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await served(plane, agent)
        says(plane, 1)
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 300, [agent])
        assert stops(agent) == []
        assert [one.state for one in plane.fleet.replicas()] == [DRAINING]
        assert plane.fleet.routes()[0].endpoints == ()
        says(plane, 0)
        await settle()
        assert stops(agent) == ["no replica of it is wanted; nothing is in flight there"]
        assert plane.fleet.replicas() == ()


async def test_every_gateway_has_to_say_that_nothing_is_in_flight(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await served(plane, agent)
        says(plane, 1, "gw-1")
        says(plane, 1, "gw-2")
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 10, [agent])
        says(plane, 0, "gw-1")
        await pass_time(clock, 10, [agent])
        assert stops(agent) == []
        says(plane, 0, "gw-2")
        await settle()
        assert len(stops(agent)) == 1


async def test_the_engines_own_count_decides_while_a_gateway_is_away(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        replica = await served(plane, agent)
        plane.loads.unknown("gw-1")
        agent.beat(shards=(ShardUse(replica=replica, requests_running=0, requests_waiting=0),))
        await settle()
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await clock.advance(4)
        assert stops(agent) == []  # the engine's word is older than the drain
        agent.beat(shards=(ShardUse(replica=replica, requests_running=1, requests_waiting=0),))
        await clock.advance(4)
        assert stops(agent) == []
        agent.beat(shards=(ShardUse(replica=replica, requests_running=0, requests_waiting=0),))
        await clock.advance(2)
        assert len(stops(agent)) == 1


async def test_where_nobody_can_say_only_the_limit_ends_it(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await served(plane, agent)
        await plane.settings.put("reconcile.drain_limit", 60.0, actor="me")
        plane.loads.unknown("gw-1")
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 58, [agent])
        assert stops(agent) == []
        await pass_time(clock, 4, [agent], every=1)
        (words,) = stops(agent)
        assert "the limit of 1m00s is over; what is in flight there is not known" in words


async def test_a_drained_node_serves_on_until_another_one_does(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        first, second = FakeAgent("n1"), FakeAgent("n2")
        second.loads = True
        await served(plane, first)
        await second.connect(plane.agents)
        await plane.membership.set_wish("n1", DRAINING, actor="me")
        await pass_time(clock, 20, [first, second])
        assert [one.node for one in plane.fleet.routes()[0].endpoints] == ["n1"]
        says(plane, 1)
        second.ready()
        await pass_time(clock, 20, [first, second])
        assert [one.node for one in plane.fleet.routes()[0].endpoints] == ["n2"]
        assert stops(first) == []
        says(plane, 0)
        await settle()
        assert len(stops(first)) == 1


async def test_what_drains_goes_on_when_it_is_wanted_again(plane: Plane, clock: FakeClock) -> None:
    """It was never told to stop: the same engine returns to the routes."""
    async with running(plane):
        agent = FakeAgent("n1")
        replica = await served(plane, agent)
        says(plane, 1)
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 30, [agent])
        assert [one.state for one in plane.fleet.replicas()] == [DRAINING]
        assert routed(plane) == []
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        assert routed(plane) == [replica]
        says(plane, 0)
        await pass_time(clock, 30, [agent])
        assert routed(plane) == [replica]
        assert stops(agent) == []
        assert len(agent.requests(StartShard)) == 1


async def test_what_was_told_to_stop_does_not_go_on(plane: Plane, clock: FakeClock) -> None:
    """The order may be lost or late: after a while it is given again, and never taken back."""
    async with running(plane):
        agent = FakeAgent("n1")
        replica = await served(plane, agent)
        says(plane, 0)
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        agent.silent = True
        await pass_time(clock, 90, [agent])
        (drain,) = plane.fleet.drains()
        assert drain.told_before
        await plane.catalog.put(cpu_model(), None, actor="me")
        agent.silent = False
        await pass_time(clock, 30, [agent])
        assert replica not in routed(plane)
        assert len(agent.requests(StartShard)) == 2


async def test_a_cordoned_node_keeps_what_it_has_and_gets_nothing(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        replica = await served(plane, agent)
        await plane.membership.set_wish("n1", CORDONED, actor="me")
        await plane.catalog.put(cpu_model(replicas=2), None, actor="me")
        await pass_time(clock, 20, [agent])
        assert [one.id for one in plane.fleet.replicas()] == [replica]
        assert "n1: is cordoned" in (plane.last_plan.refusals[0].words if plane.last_plan else "")
        await plane.membership.set_wish("n1", None, actor="me")
        await pass_time(clock, 5, [agent])
        assert len(plane.fleet.replicas()) == 2


async def test_a_new_leader_drains_anew(plane: Plane, store: MemoryStore, clock: FakeClock) -> None:
    agent = FakeAgent("n1")
    async with running(plane):
        await served(plane, agent)
        says(plane, 1)
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 60, [agent])
    await agent.sever()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await agent.connect(again.agents)
        says(again, 1)
        await pass_time(clock, 60, [agent])
        assert stops(agent) == []
        says(again, 0)
        await settle()
        assert len(stops(agent)) == 1


async def test_the_executor_does_what_a_plan_says_and_nothing_of_its_own(plane: Plane) -> None:
    """Written by hand: placement would have taken another node."""
    async with opened(plane):
        agents = {name: FakeAgent(name, devices=1) for name in ("n1", "n2")}
        model = cpu_model(gpus=1)
        agents["n1"].runs(spec_of(model, "tiny-old001", devices=("GPU-n1-0",)))
        agents["n1"].runs(spec_of(model, "tiny-old002"))
        for agent in agents.values():
            await agent.connect(plane.agents)
        await plane.catalog.put(model, None, actor="me")
        assert plane.leadership.settled((), 0.0)
        spec = spec_of(model, "tiny-new001", devices=("GPU-n2-0",))
        plan = Plan(
            number=1,
            parent=None,
            steps=(
                StopReplica(replica="tiny-old001", shards=(("n1", 0),), words="by hand"),
                DrainReplica(replica="tiny-old002", words="by hand"),
                StartReplica(
                    replica="tiny-new001",
                    model="tiny",
                    profile="default",
                    shards=(Assignment(node="n2", spec=spec),),
                    words="by hand",
                ),
            ),
            sentence="by hand",
        )
        assert await plane.executor.apply(plan) == ()
        sent = [(one.kind, one.node, one.replica) for one in plane.executor.sent]
        assert sorted(sent) == [("start", "n2", "tiny-new001"), ("stop", "n1", "tiny-old001")]
        (started,) = agents["n2"].requests(StartShard)
        assert isinstance(started, StartShard)
        assert started.spec == spec
        await settle()
        states = {one.id: one.state for one in plane.fleet.replicas()}
        assert states == {"tiny-new001": "ready", "tiny-old002": DRAINING}
        kept = Plan(
            number=2,
            parent=1,
            steps=(
                KeepReplica(replica="tiny-old002", words="by hand"),
                KeepReplica(replica="tiny-new001", words="by hand"),
            ),
            sentence="by hand",
        )
        left_out = await plane.executor.apply(kept)
        assert left_out == ("left out tiny-new001: tiny-new001 was not given up",)
        states = {one.id: one.state for one in plane.fleet.replicas()}
        assert states == {"tiny-new001": "ready", "tiny-old002": "ready"}


def answer(caller: Caller) -> None:
    """Let a gateway answer the newest ping, if there was one."""
    for number in [one.ping.number for one in caller.stream.sent if one.ping][-1:]:
        caller.stream.say(GatewayMessage(pong=Pong(number=number)))


async def idle(plane: Plane, agent: FakeAgent) -> Caller:
    """Have a replica, and a gateway that has nothing in flight there."""
    await served(plane, agent)
    caller = await Caller(plane).register()
    caller.stream.say(GatewayMessage(loads=LoadReport(gateway=caller.name)))
    await settle()
    return caller


async def test_what_is_idle_is_stopped_soon_after_its_gateways_have_left_it(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        caller = await idle(plane, agent)
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        for _ in range(20):
            await clock.advance(0.1)
            answer(caller)
            await settle()
        assert len(stops(agent)) == 1


async def test_a_gateway_that_is_silent_holds_a_drain_until_it_is_heard(
    plane: Plane, clock: FakeClock
) -> None:
    """It may send on by the old routes: what it said before is no word of now."""
    async with running(plane):
        agent = FakeAgent("n1")
        caller = await idle(plane, agent)
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 12, [agent])
        assert stops(agent) == []
        answer(caller)
        await settle()
        # It has the routes from now on; what it sent until then it tells with its next report.
        assert stops(agent) == []
        await clock.advance(0.7)
        caller.stream.say(GatewayMessage(loads=has(plane, caller, 1)))
        answer(caller)
        await pass_time(clock, 10, [agent], every=1)
        assert stops(agent) == []
        caller.stream.say(GatewayMessage(loads=has(plane, caller, 0)))
        await settle()
        assert len(stops(agent)) == 1


def has(plane: Plane, caller: Caller, count: int) -> LoadReport:
    """Return a report of so many at each replica."""
    replicas = tuple(ReplicaLoad(replica=one.id, in_flight=count) for one in plane.fleet.replicas())
    return LoadReport(gateway=caller.name, replicas=replicas)


async def test_a_gateway_whose_stream_was_cut_leaves_it_to_the_engines_own_count(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        caller = await idle(plane, agent)
        (replica,) = (one.id for one in plane.fleet.replicas())
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 12, [agent])
        use = ShardUse(replica=replica, requests_running=0, requests_waiting=0)
        agent.beat(shards=(use,))
        await clock.advance(5)
        assert stops(agent) == []
        caller.stream.abort("nothing was heard for too long")
        await settle()
        agent.beat(shards=(use,))
        await clock.advance(5)
        assert len(stops(agent)) == 1


async def test_a_gateway_that_is_gone_for_long_holds_up_no_drain(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        caller = await idle(plane, agent)
        caller.stream.abort("switched off")
        await pass_time(clock, GONE - 10, [agent])
        assert plane.loads.in_flight() is None
        await pass_time(clock, 20, [agent])
        assert plane.loads.in_flight() == {}
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 5, [agent], every=1)
        assert len(stops(agent)) == 1
