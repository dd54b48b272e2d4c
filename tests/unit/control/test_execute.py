"""What a plan sends: a node that does not answer keeps nobody waiting but itself."""

import asyncio

import pytest

from llmgw.base.periodic import PassSeen
from llmgw.control.execute import AT_ONCE, LONGEST
from llmgw.control.plane import Plane
from llmgw.model.catalog import SIMULATED, Model, Profile
from llmgw.model.commands import Accepted, Reply, StartShard, StopShard
from llmgw.model.shard import STARTING, Rendezvous
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time, spec_of
from tests.fakes.scripted_agent import FakeAgent

STRAYS = 200


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock, MemoryStore())


def strays_on(agent: FakeAgent) -> None:
    """Let a node start very much of a model that no catalog has."""
    ghost = cpu_model()
    for number in range(STRAYS):
        agent.runs(spec_of(ghost, f"ghost-{number:06}"), STARTING)


def of_a_card(replicas: int = 1) -> Model:
    return Model(name="card", profiles=(Profile(engine=SIMULATED, gpus=1, replicas=replicas),))


async def begin(plane: Plane) -> asyncio.Task[PassSeen]:
    """Begin one pass."""
    going = asyncio.create_task(plane.passes["reconcile"].run_once())
    await settle()
    return going


def answer_next(agent: FakeAgent, begun: int) -> int:
    """Let a silent node answer all that it was told but the first so many; return how many."""
    for command in agent.commands[begun:]:
        agent.say(reply=Reply(id=command.id, answer=Accepted()))
    return len(agent.commands)


async def test_a_node_that_never_answers_delays_no_start_on_another(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        stuck, healthy = FakeAgent("a-stuck"), FakeAgent("healthy", devices=1)
        strays_on(stuck)
        stuck.silent = True
        for agent in (stuck, healthy):
            await agent.connect(plane.agents)
        await plane.catalog.put(of_a_card(), None, actor="me")
        going = await begin(plane)
        assert len(healthy.requests(StartShard)) == 1
        assert len(stuck.requests(StopShard)) == AT_ONCE
        await pass_time(clock, 11, [stuck, healthy], every=1)
        assert going.done(), "one deadline, however much it was to be told"
        assert len(stuck.requests(StopShard)) == AT_ONCE
        left = [
            words for words in (going.result().sentence or "").split("; ") if "was not" in words
        ]
        assert len(left) == STRAYS - AT_ONCE
        assert left[0].endswith("was not stopped: a-stuck does not answer")


async def test_a_node_that_answers_late_each_time_does_not_make_a_pass_last_for_ever(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        slow = FakeAgent("slow")
        strays_on(slow)
        slow.silent = True
        await slow.connect(plane.agents)
        going = await begin(plane)
        answered = 0
        for _ in range(4):
            await pass_time(clock, 0.6 * LONGEST, [slow], every=1)
            answered = answer_next(slow, answered)
            await settle()
        assert going.done()
        assert len(slow.requests(StopShard)) == 2 * AT_ONCE
        assert "was not stopped: slow takes too long to answer" in (going.result().sentence or "")


async def test_a_start_that_was_not_sent_to_a_silent_node_holds_nothing_and_blames_nobody(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        stuck = FakeAgent("stuck", devices=5)
        stuck.silent = True
        await stuck.connect(plane.agents)
        await plane.catalog.put(of_a_card(5), None, actor="me")
        going = await begin(plane)
        await pass_time(clock, 11, [stuck], every=1)
        assert going.done()
        assert len(stuck.requests(StartShard)) == AT_ONCE
        (room,) = plane.fleet.observed().nodes
        assert len(room.bookings) == AT_ONCE
        assert plane.fleet.observed().failures == ()


@pytest.mark.parametrize("stuck", [0, 1])
async def test_a_replica_of_several_nodes_is_ended_at_once_where_its_node_answers(
    plane: Plane, clock: FakeClock, stuck: int
) -> None:
    async with opened(plane):
        agents = [FakeAgent("n0"), FakeAgent("n1")]
        meeting = Rendezvous(address="n0", port=29500, world=2, nodes=("n0", "n1"))
        for rank, agent in enumerate(agents):
            agent.runs(spec_of(cpu_model(), "ghost-1", rank=rank, rendezvous=meeting), STARTING)
            agent.silent = rank == stuck
            await agent.connect(plane.agents)
        going = await begin(plane)
        assert [len(agent.requests(StopShard)) for agent in agents] == [1, 1]
        await pass_time(clock, 11, agents, every=1)
        assert going.done()


async def test_one_node_is_told_in_the_order_of_the_plan(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=4)
        for number in range(3):
            agent.runs(spec_of(cpu_model(), f"ghost-{number}"), STARTING)
        await agent.connect(plane.agents)
        await plane.catalog.put(of_a_card(4), None, actor="me")
        await (await begin(plane))
        told = [type(one.request) for one in agent.commands]
        assert told == [StopShard] * 3 + [StartShard] * 4
