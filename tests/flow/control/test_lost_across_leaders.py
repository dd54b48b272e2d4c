"""A node is lost, and who leads changes: what the policy `keep` comes to (LINK-6a, REC-2)."""

import pytest

from llmgw.model.catalog import KEEP, Disconnect, Model
from llmgw.model.commands import StartShard, StopShard
from llmgw.model.node import LOST, READY
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import cpu_model, pass_time
from tests.fakes.scripted_agent import FakeAgent
from tests.flow.control.heads import Head, until

HOUR = 3600.0


def kept() -> Model:
    model = cpu_model()
    assert model.disconnect == Disconnect(policy=KEEP)
    return model


async def serving(head: Head) -> tuple[FakeAgent, FakeAgent, str]:
    """Return the agent that runs the one replica, another that has room for it, and its id."""
    agents = [FakeAgent("n1"), FakeAgent("n2")]
    for agent in agents:
        await agent.connect(head.plane.agents)
    await head.plane.catalog.put(kept(), None, actor="ana")
    await settle()
    (replica,) = head.plane.fleet.replicas()
    runs, other = sorted(agents, key=lambda one: one.node != replica.shards[0].node)
    return runs, other, replica.id


def known(head: Head) -> list[tuple[str, str | None]]:
    return [(one.id, one.state) for one in head.plane.fleet.replicas()]


def liveness(head: Head, agent: FakeAgent) -> str | None:
    node = head.plane.fleet.node(agent.node)
    assert node is not None
    return node.liveness


@pytest.mark.parametrize("changes", [0, 1, 2])
async def test_what_a_lost_node_ran_is_waited_for_by_every_leader_that_heard_of_it(
    heads: tuple[Head, Head], clock: FakeClock, changes: int
) -> None:
    leads, stands_by = heads
    runs, other, replica = await serving(leads)
    for _ in range(changes):
        await leads.kill()
        await until(clock, stands_by)
        leads, stands_by = stands_by, leads
        await stands_by.start()
        for agent in (runs, other):
            await agent.connect(leads.plane.agents)
        await pass_time(clock, 40, [runs, other])
    await runs.sever()
    await pass_time(clock, HOUR, [other])
    assert liveness(leads, runs) == LOST
    assert known(leads) == [(replica, READY)]
    assert other.requests(StartShard) == []
    await runs.connect(leads.plane.agents)
    await pass_time(clock, 40, [runs, other])
    assert known(leads) == [(replica, READY)]
    assert (len(runs.requests(StartShard)), runs.requests(StopShard)) == (1, [])


async def test_a_node_that_is_back_before_a_new_leader_has_settled_was_waited_for(
    heads: tuple[Head, Head], clock: FakeClock
) -> None:
    first, second = heads
    runs, other, replica = await serving(first)
    await runs.sever()
    await pass_time(clock, HOUR, [other])
    await first.kill()
    await until(clock, second)
    await other.connect(second.plane.agents)
    await pass_time(clock, 14, [other], every=1)
    assert other.requests(StartShard) == []
    await runs.connect(second.plane.agents)
    await pass_time(clock, 40, [runs, other])
    assert known(second) == [(replica, READY)]
    assert (other.requests(StartShard), runs.requests(StopShard)) == ([], [])


async def test_what_a_leader_never_heard_of_is_placed_anew_once_and_one_stays_on_return(
    heads: tuple[Head, Head], clock: FakeClock
) -> None:
    """Nodes are stored, what they run is not: nobody can tell a new leader what ran there."""
    first, second = heads
    runs, other, replica = await serving(first)
    await runs.sever()
    await pass_time(clock, HOUR, [other])
    await first.kill()
    await until(clock, second)
    await other.connect(second.plane.agents)
    await pass_time(clock, HOUR, [other])
    ((new, state),) = known(second)
    assert (new != replica, state) == (True, READY)
    assert len(other.requests(StartShard)) == 1
    await runs.connect(second.plane.agents)
    await pass_time(clock, 40, [runs, other])
    assert known(second) == [(new, READY)]
    assert len(runs.requests(StopShard)) == 1
    assert len(runs.requests(StartShard) + other.requests(StartShard)) == 2
