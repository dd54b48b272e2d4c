"""A replica of several nodes is one: without one of its shards it fails, whole (REC-10)."""

import msgspec
import pytest

from llmgw.control.plane import Plane
from llmgw.model.catalog import KEEP, REPLACE, SIMULATED, Disconnect, Model, Profile
from llmgw.model.commands import Declined, StartShard, StopShard
from llmgw.model.fabric import Port
from llmgw.model.shard import FAILED, READY, STARTING, Rendezvous
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent

PORT = Port(adapter="mlx5_0", number=1, state="4: ACTIVE", master_guid="0xa", rate=400 * 10**9)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def wide(policy: str = KEEP, *, after: float = 0.0, replicas: int = 1) -> Model:
    """A model of which each replica takes one card on each of two nodes."""
    profile = Profile(engine=SIMULATED, gpus=1, nodes=2, replicas=replicas)
    disconnect = Disconnect(policy=policy, after=after)
    return Model(name="wide", disconnect=disconnect, profiles=(profile,))


async def joined(plane: Plane, count: int) -> list[FakeAgent]:
    agents = [FakeAgent(f"n{number}", devices=1) for number in range(1, count + 1)]
    for agent in agents:
        agent.inventory = msgspec.structs.replace(agent.inventory, ports=(PORT,))
        await agent.connect(plane.agents)
    return agents


async def serving(plane: Plane, model: Model, nodes: int) -> list[FakeAgent]:
    """Return the agents of a fleet that serves one replica of a model, rank 0 and 1 first."""
    agents = await joined(plane, nodes)
    await plane.catalog.put(model, None, actor="me")
    await settle()
    (replica,) = plane.fleet.replicas()
    assert replica.state == READY
    first, second = (shard.node for shard in replica.shards)
    return sorted(agents, key=lambda one: (one.node != first, one.node != second))


def ends(agent: FakeAgent) -> list[tuple[str, int]]:
    """What an agent was told to stop."""
    asked = (one for one in agent.requests(StopShard) if isinstance(one, StopShard))
    return [(one.replica, one.rank) for one in asked]


def starts(*agents: FakeAgent) -> list[str]:
    """Which replicas some agents were told to start a shard of."""
    asked = (one for agent in agents for one in agent.requests(StartShard))
    return [one.spec.replica for one in asked if isinstance(one, StartShard)]


def ready(plane: Plane) -> dict[str, list[str]]:
    """Where each replica that is ready has its shards."""
    found = plane.fleet.replicas()
    return {one.id: [shard.node for shard in one.shards] for one in found if one.state == READY}


def held(plane: Plane) -> dict[str, list[str]]:
    rooms = plane.fleet.observed().nodes
    return {room.node.id: [one.replica for one in room.bookings] for room in rooms}


@pytest.mark.parametrize("removed", [0, 1])
async def test_one_whose_node_is_removed_is_stopped_where_it_is_left_and_replaced(
    plane: Plane, clock: FakeClock, removed: int
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(), 4)
        (old,) = ready(plane)
        gone = agents[removed]
        left = [agent for agent in agents if agent is not gone]
        await plane.membership.remove(gone.node, actor="me")
        known = plane.fleet.replica(old)
        assert known is not None
        assert (known.state, known.reason) == (
            FAILED,
            f"shard {removed} of 2 is missing: {gone.node} is not in the cluster any more",
        )
        await pass_time(clock, 10, left)
        assert ends(agents[1 - removed]) == [(old, 1 - removed)]
        (new,) = ready(plane)
        assert new != old
        assert [one.id for one in plane.fleet.replicas()] == [new]
        assert starts(*left).count(new) == 2


async def test_one_whose_node_returns_without_its_shard_is_replaced(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(), 2)
        (old,) = ready(plane)
        agents[1].shards.clear()
        await agents[1].connect(plane.agents)
        await pass_time(clock, 10, agents)
        assert ends(agents[0]) == [(old, 0)]
        assert [*ready(plane)] != [old]
        assert {node: len(there) for node, there in held(plane).items()} == {"n1": 1, "n2": 1}


async def test_one_of_which_a_start_is_refused_is_stopped_where_it_was_taken(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await joined(plane, 2)
        agents[1].declines = Declined(words="no")
        await plane.catalog.put(wide(), None, actor="me")
        await pass_time(clock, 4, agents, every=1)
        (begun,) = set(starts(agents[0]))
        assert ends(agents[0]) == [(begun, 0)]
        assert held(plane) == {"n1": [], "n2": []}


async def test_a_new_leader_waits_for_the_node_of_a_shard_that_it_has_not_heard(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(KEEP), 4)
        (old,) = ready(plane)
    again = make_plane(clock, store, seed=8)
    begun = len(starts(*agents))
    async with running(again):
        there = [agent for agent in agents if agent is not agents[1]]
        for agent in there:
            await agent.connect(again.agents)
        await pass_time(clock, 600, there)
        assert ready(again) == {old: [agents[0].node, agents[1].node]}
        (route,) = again.fleet.routes()
        assert [one.last_resort for one in route.endpoints] == [True]
        await agents[1].connect(again.agents)
        await pass_time(clock, 30, agents)
        assert ready(again) == {old: [agents[0].node, agents[1].node]}
        assert (len(starts(*agents)), [ends(agent) for agent in agents]) == (begun, [[]] * 4)
        (route,) = again.fleet.routes()
        assert [one.last_resort for one in route.endpoints] == [False]


async def test_a_new_leader_that_does_not_hear_rank_0_has_nothing_to_send_requests_to(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(KEEP), 2)
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await agents[1].connect(again.agents)
        await pass_time(clock, 100, agents[1:])
        (replica,) = again.fleet.replicas()
        assert (replica.state, replica.reason) == (STARTING, "1 of 2 shards are known")
        assert again.fleet.routes()[0].endpoints == ()
        assert ends(agents[1]) == []


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_new_leader_replaces_what_it_hears_half_of_as_the_model_says(
    plane: Plane, store: MemoryStore, clock: FakeClock, lost: int
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(REPLACE, after=30), 4)
        (old,) = ready(plane)
    again = make_plane(clock, store, seed=8)
    async with running(again):
        there = [agent for agent in agents if agent is not agents[lost]]
        for agent in there:
            await agent.connect(again.agents)
        await pass_time(clock, 85, there)
        assert ends(agents[1 - lost]) == []
        await pass_time(clock, 15, there)
        assert ends(agents[1 - lost]) == [(old, 1 - lost)]
        (new,) = ready(again)
        assert agents[lost].node not in ready(again)[new]
        await agents[lost].connect(again.agents)
        await pass_time(clock, 10, agents)
        assert ends(agents[lost]) == [(old, lost)]
        assert [one.id for one in again.fleet.replicas()] == [new]


async def test_a_new_leader_replaces_at_once_what_a_node_came_back_without(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(KEEP), 3)
        (old,) = ready(plane)
    agents[1].shards.clear()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await agents[0].connect(again.agents)
        await agents[1].connect(again.agents)
        await pass_time(clock, 20, agents[:2])
        assert ends(agents[0]) == [(old, 0)]
        assert [*ready(again)] != [old]


async def test_what_is_left_of_one_that_is_replaced_is_free_while_its_node_is_lost(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(REPLACE), 4)
        (old,) = ready(plane)
        lost, survivor, *others = agents
        await lost.sever()
        await pass_time(clock, 55, [survivor, *others])
        assert held(plane)[survivor.node] == [old]
        await pass_time(clock, 15, [survivor, *others])
        (new,) = ready(plane)
        assert sorted(ready(plane)[new]) == sorted(agent.node for agent in others)
        assert (ends(survivor), held(plane)[survivor.node]) == ([(old, 1)], [])
        assert held(plane)[lost.node] == [old]
        await pass_time(clock, 600, [survivor, *others])
        assert held(plane)[lost.node] == [old]
        await lost.connect(plane.agents)
        await pass_time(clock, 10, agents)
        assert (ends(lost), held(plane)[lost.node]) == ([(old, 0)], [])
        assert [*ready(plane)] == [new]


async def test_what_is_left_of_one_that_nobody_wants_is_free_while_its_node_is_lost(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        lost, survivor = await serving(plane, wide(KEEP), 2)
        await lost.sever()
        await pass_time(clock, 70, [survivor])
        assert ends(survivor) == []
        await plane.settings.put("serving.stopped", True, actor="me")
        await pass_time(clock, 10, [survivor])
        assert held(plane)[survivor.node] == []


async def test_an_ordinary_stop_of_several_shards_is_no_failure(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await serving(plane, wide(), 2)
        (old,) = ready(plane)
        agents[1].silent = True
        await plane.catalog.put(wide(replicas=0), None, actor="me")
        await pass_time(clock, 6, agents, every=1)
        assert held(plane) == {agents[0].node: [], agents[1].node: [old]}
        (replica,) = plane.fleet.replicas()
        assert (replica.state, replica.reason) == ("draining", "no replica of it is wanted")
        assert len(ends(agents[1])) == 1


async def test_a_shard_that_an_older_control_plane_sent_is_waited_for_on_any_node(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    def known(of: Plane) -> tuple[str | None, str | None]:
        (replica,) = of.fleet.replicas()
        return replica.state, replica.reason

    async with opened(plane):
        one, other = await joined(plane, 2)
    meeting = Rendezvous(address="127.0.0.1", port=29500, world=2)
    spec = spec_of(wide(), "wide-aaa111", rendezvous=meeting)
    one.runs(spec, STARTING)
    again = make_plane(clock, store, seed=8)
    async with opened(again):
        await one.connect(again.agents)
        assert known(again) == (STARTING, "1 of 2 shards are known")
        await other.connect(again.agents)
        assert known(again) == (FAILED, "shard 1 of 2 is missing: no node has it")
        other.runs(msgspec.structs.replace(spec, rank=1), STARTING)
        await other.connect(again.agents)
        assert known(again) == (STARTING, None)
    last = make_plane(clock, store, seed=9)
    async with opened(last):
        await one.connect(last.agents)
        for seconds, state in ((55, STARTING), (6, FAILED)):
            await pass_time(clock, seconds, [one])
            last.fleet.age()
            assert known(last)[0] == state


@pytest.mark.parametrize("claimed", [0, 3])
async def test_however_many_shards_a_node_says_are_elsewhere_the_nodes_are_looked_at_once(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    async with opened(plane):
        asked: list[str] = []
        waiting_for = plane.fleet.waiting_for

        def counted() -> tuple[str, ...]:
            asked.append("once")
            return waiting_for()

        liar, other = FakeAgent("n1", devices=1), FakeAgent("n2", devices=1)
        nodes = tuple(f"n{number}" for number in range(claimed))
        meeting = Rendezvous(address="127.0.0.1", port=29500, world=256, nodes=nodes)
        for number in range(20):
            liar.runs(spec_of(wide(), f"wide-{number:06}", rank=255, rendezvous=meeting))
        await liar.connect(plane.agents)
        monkeypatch.setattr(plane.fleet, "waiting_for", counted)
        plane.fleet.replicas()
        asked.clear()
        plane.fleet.shards.look_again()
        assert len(asked) <= 1
        await other.connect(plane.agents)
        assert {one.state for one in plane.fleet.replicas()} == {FAILED}
        asked.clear()
        plane.fleet.shards.catalog_changed("wide")
        plane.fleet.replicas()
        assert len(asked) <= 1
