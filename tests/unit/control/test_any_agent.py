"""Whatever an agent says, it costs at most its own stream: the control plane goes on for others."""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgw.control.metrics.collector import gather, render
from llmgw.control.plane import Plane
from llmgw.model.feed import EVENTS, MODELS, NODES, REPLICAS, ROUTES, SAMPLES
from llmgw.model.link import AgentMessage
from llmgw.model.node import READY, Heartbeat, Inventory, Register
from llmgw.model.shard import ShardStatus
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import cpu_model, make_plane, pass_time, running
from tests.fakes.scripted_agent import FakeAgent
from tests.unit.proto.messages import any_record

TOPICS = (NODES, SAMPLES, REPLICAS, ROUTES, MODELS, EVENTS)


class Odd(FakeAgent):
    """An agent that registers with anything and answers nothing."""

    def __init__(self, register: Register) -> None:
        super().__init__(register.node)
        self.said = register
        self.silent = True

    def register(self) -> Register:
        return self.said


def everything_is_read(plane: Plane) -> None:
    plane.feed.touch(ROUTES)
    msgspec.json.encode(plane.feed.listing(TOPICS))
    render(gather(plane))
    for entry in plane.catalog.entries():
        plane.foresight.explain(entry.model.name)
    for one in plane.passes.values():
        assert one.last is not None
        assert one.last.error is None, f"{one.name}: {one.last.error}"


async def lived_through(register: Register, messages: list[AgentMessage]) -> None:
    clock = FakeClock()
    plane = make_plane(clock)
    await plane.open()
    await plane.catalog.put(cpu_model("tiny", replicas=1), expected=None, actor="anna")
    passes = asyncio.create_task(plane.run())
    odd = Odd(msgspec.structs.replace(register, node="odd", highest_term=None))
    good = FakeAgent("good")
    try:
        await good.connect(plane.agents)
        await odd.connect(plane.agents)
        for message in messages:
            odd._say(message)
        await settle()
        await pass_time(clock, 12.0, (good,))
        everything_is_read(plane)
        assert plane.agents.connected("good"), good.ended
        assert not passes.done()
        if odd.task is not None and odd.task.done():
            odd.task.result()
    finally:
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)
        for agent in (odd, good):
            if agent.task is not None:
                agent.task.cancel()
                await asyncio.gather(agent.task, return_exceptions=True)


MESSAGES = st.lists(
    st.one_of(
        st.builds(AgentMessage, heartbeat=any_record(Heartbeat)),
        st.builds(AgentMessage, shard=any_record(ShardStatus)),
        st.builds(AgentMessage, inventory=any_record(Inventory)),
    ),
    max_size=4,
)


@settings(suppress_health_check=list(HealthCheck))
@given(any_record(Register), MESSAGES)
def test_nothing_that_an_agent_says_hinders_the_others(
    register: Register, messages: list[AgentMessage]
) -> None:
    asyncio.run(lived_through(register, messages))


SAID = tuple(name for name in Register.__struct_fields__ if name != "node")
HAS = Inventory.__struct_fields__


@pytest.mark.parametrize("lacks", [*SAID, *(f"inventory.{name}" for name in HAS), "everything"])
async def test_an_older_agent_that_cant_say_something_keeps_what_it_runs(lacks: str) -> None:
    clock = FakeClock()
    plane = make_plane(clock)
    async with running(plane):
        await plane.catalog.put(cpu_model("tiny"), expected=None, actor="anna")
        newer = FakeAgent("n1", devices=2)
        await newer.connect(plane.agents)
        await pass_time(clock, 30, (newer,))
        (before,) = plane.fleet.replicas()
        assert before.state == READY
        known = plane.fleet.node("n1")
        assert known is not None
        sent = list(plane.executor.sent)
        older = Odd(lacking(newer.register(), lacks))
        await newer.sever()
        await older.connect(plane.agents)
        assert older.ended is None
        await pass_time(clock, 60, (older,))
        assert [(one.id, one.state) for one in plane.fleet.replicas()] == [(before.id, READY)]
        node = plane.fleet.node("n1")
        assert node is not None
        assert (node.liveness, node.wish, node.health) == (READY, None, known.health)
        assert (node.inventory, node.labels) == (known.inventory, known.labels)
        assert list(plane.executor.sent) == sent
        assert plane.fleet.routes()[0].endpoints


def lacking(register: Register, lacks: str) -> Register:
    """Return what an agent says that does not know one thing, or anything but who it is."""
    if lacks == "everything":
        return Register(node=register.node)
    where, _, name = lacks.partition(".")
    if not name:
        return msgspec.structs.replace(register, **{where: None})
    assert register.inventory is not None
    less = msgspec.structs.replace(register.inventory, **{name: None})
    return msgspec.structs.replace(register, inventory=less)
