"""Nodes that are lost: one is replaced as its model says, many at once are our own fault."""

import pytest

from llmgw.control.api.status import _problems
from llmgw.control.plane import Plane
from llmgw.model.catalog import NEWER, ORIGINAL, REPLACE, Disconnect, Model
from llmgw.model.commands import StartShard
from llmgw.model.events import PROBLEM
from llmgw.model.shard import READY
from llmgw.model.trouble import MASS_LOSS
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, pass_time, running
from tests.fakes.scripted_agent import FakeAgent


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def replaced_model(*, after: float = 0.0, on_return: str = NEWER, **profile: object) -> Model:
    model = cpu_model(**profile)  # type: ignore[arg-type]
    disconnect = Disconnect(policy=REPLACE, after=after, on_return=on_return)
    return Model(**{**_fields(model), "disconnect": disconnect})  # type: ignore[arg-type]


def _fields(model: Model) -> dict[str, object]:
    return {name: getattr(model, name) for name in model.__struct_fields__}


def sent(plane: Plane) -> list[tuple[str, str]]:
    return [(one.kind, one.node) for one in plane.executor.sent]


def problems(plane: Plane) -> list[str]:
    return [one.words for one in plane.events.recent() if one.severity == PROBLEM]


def placed(agents: list[FakeAgent]) -> list[tuple[str, str]]:
    """Every device that was ever handed out, with its replica."""
    starts = [one for agent in agents for one in agent.requests(StartShard)]
    return [
        (uuid, one.spec.replica)
        for one in starts
        if isinstance(one, StartShard)
        for uuid in one.spec.devices
    ]


async def fleet_of(plane: Plane, count: int, devices: int = 0) -> list[FakeAgent]:
    agents = [FakeAgent(f"n{number}", devices=devices) for number in range(1, count + 1)]
    for agent in agents:
        await agent.connect(plane.agents)
    return agents


async def test_five_of_six_nodes_lost_at_once_are_one_problem_and_nothing_moves(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await fleet_of(plane, 6)
        await plane.catalog.put(replaced_model(replicas=5), None, actor="me")
        await settle()
        before = sent(plane)
        assert len(before) == 5
        for agent in agents[:5]:
            await agent.sever()
        await pass_time(clock, 600, agents[5:])
        assert sent(plane) == before
        (told,) = problems(plane)
        (shown,) = _problems(plane)
        assert shown.subject == MASS_LOSS
        assert shown.words.endswith("its network; if they are gone: llmgw ctl node accept-loss")
        assert told.startswith(
            "5 of 6 nodes were lost within a few seconds (n1, n2, n3 and 2 more)"
        )
        for agent in agents[:5]:
            await agent.connect(plane.agents)
        await pass_time(clock, 60, agents)
        assert sent(plane) == before
        assert problems(plane) == [told]
        last = plane.passes["reconcile"].last
        assert last is not None
        assert last.sentence == "nothing to do: 5 replicas of 1 model run"


async def test_an_operator_can_have_the_loss_taken_for_real(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agents = await fleet_of(plane, 4)
        await plane.catalog.put(replaced_model(replicas=3), None, actor="me")
        await settle()
        away = [agent for agent in agents if agent.requests(StartShard)]
        (left,) = [agent for agent in agents if agent not in away]
        for agent in away:
            await agent.sever()
        await pass_time(clock, 120, [left])
        assert len(sent(plane)) == 3
        await plane.accept_loss(actor="me")
        await pass_time(clock, 10, [left])
        assert sent(plane)[3:] == [("start", left.node)] * 3


async def test_a_node_lost_alone_is_replaced_and_the_newer_stays_on_its_return(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await fleet_of(plane, 2, devices=1)
        await plane.catalog.put(replaced_model(after=30, gpus=1), None, actor="me")
        await settle()
        first, second = sorted(agents, key=lambda one: not one.requests(StartShard))
        await first.sever()
        await pass_time(clock, 85, [second])
        assert sent(plane) == [("start", first.node)]
        await pass_time(clock, 15, [second])
        assert sent(plane) == [("start", first.node), ("start", second.node)]
        old, new = [replica for _, replica in placed([first, second])]
        await first.connect(plane.agents)
        await pass_time(clock, 1, agents)
        booked = {room.node.id: room.bookings for room in plane.fleet.observed().nodes}
        assert [b.replica for b in booked[first.node]] == [old]
        await pass_time(clock, 10, agents)
        assert sent(plane)[2:] == [("stop", first.node)]
        assert [replica.id for replica in plane.fleet.replicas()] == [new]


async def test_a_node_lost_alone_gets_its_replica_back_where_the_original_is_kept(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await fleet_of(plane, 2, devices=1)
        model = replaced_model(after=0, on_return=ORIGINAL, gpus=1)
        await plane.catalog.put(model, None, actor="me")
        await settle()
        first, second = sorted(agents, key=lambda one: not one.requests(StartShard))
        await first.sever()
        await pass_time(clock, 70, [second])
        old = placed([first])[0][1]
        await first.connect(plane.agents)
        await pass_time(clock, 10, agents)
        assert sent(plane)[2:] == [("stop", second.node)]
        assert [(r.id, r.state) for r in plane.fleet.replicas()] == [(old, READY)]


async def test_a_new_leader_that_hears_few_nodes_starts_nothing(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await fleet_of(plane, 6)
        await plane.catalog.put(replaced_model(replicas=5), None, actor="me")
        await settle()
    for agent in agents:
        await agent.sever()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await agents[5].connect(again.agents)
        await pass_time(clock, 200, agents[5:])
        assert sent(again) == []
        assert len(problems(again)) == 1
        for agent in agents[:5]:
            await agent.connect(again.agents)
        await pass_time(clock, 40, agents)
        assert sent(again) == []


async def test_nodes_that_were_gone_before_this_control_plane_began_hold_nothing_up(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with running(plane):
        agents = await fleet_of(plane, 6)
        for agent in agents[:4]:
            await agent.sever()
            await pass_time(clock, 70, agents[4:])
        await pass_time(clock, 3600, agents[4:], every=15)
    for agent in agents[4:]:
        await agent.sever()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await again.catalog.put(cpu_model(), None, actor="me")
        for agent in agents[4:]:
            await agent.connect(again.agents)
        await pass_time(clock, 20, agents[4:])
        assert [kind for kind, _ in sent(again)] == ["start"]
        assert again.fleet.losses.now is None
