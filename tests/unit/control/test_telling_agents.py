"""What agents are told unasked: pings, and settings as they change."""

import pytest

from llmgw.base.errors import Conflict, Unreachable
from llmgw.control.plane import Plane
from llmgw.model.commands import ApplySettings
from llmgw.model.node import READY
from llmgw.model.settings import LinkSettings
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened, pass_time, running
from tests.fakes.scripted_agent import FakeAgent


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


async def test_changed_settings_reach_one_node_a_second(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agents = [FakeAgent(f"n{number}") for number in range(3)]
        for agent in agents:
            await agent.connect(plane.agents)
        await plane.settings.put("serving.stopped", True, actor="me")
        await pass_time(clock, 3, agents, every=1)
        assert [agent.requests(ApplySettings) for agent in agents] == [[], [], []]
        await plane.settings.put("link.heartbeat_interval", 2.0, actor="me")
        await settle()
        counts = []
        for _ in range(4):
            counts.append(sum(len(agent.requests(ApplySettings)) for agent in agents))
            await pass_time(clock, 1, agents, every=1)
        assert counts == [1, 2, 3, 3]
        streams = [agent.stream for agent in agents]
        assert [stream.interval for stream in streams if stream is not None] == [2.0, 2.0, 2.0]


async def test_an_agent_that_does_not_answer_keeps_no_other_from_its_settings(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        stuck, old, fine = FakeAgent("a"), FakeAgent("b", features=("shards",)), FakeAgent("c")
        stuck.silent = True
        for agent in (stuck, old, fine):
            await agent.connect(plane.agents)
        await plane.settings.put("link.heartbeat_interval", 2.0, actor="me")
        await pass_time(clock, 30, [stuck, old, fine], every=1)
        assert len(fine.requests(ApplySettings)) == 1
        assert len(stuck.requests(ApplySettings)) >= 2
        assert old.requests(ApplySettings) == []


async def test_an_agent_learns_the_settings_in_its_welcome(plane: Plane) -> None:
    async with running(plane):
        await plane.settings.put("link.heartbeat_interval", 1.0, actor="me")
        agent = FakeAgent("n1")
        stream = await agent.connect(plane.agents)
        welcome = agent.welcomes[0]
        assert (welcome.heartbeat_interval, stream.interval) == (1.0, 1.0)
        assert welcome.settings is not None
        assert welcome.settings.version == 1
        assert welcome.lost_after == LinkSettings().lost_after
        assert agent.requests(ApplySettings) == []


async def test_settings_at_another_version_are_a_conflict(plane: Plane) -> None:
    async with opened(plane):
        await plane.settings.put("link.lost_after", 90.0, actor="me")
        with pytest.raises(Conflict, match="at version 1, not 0"):
            await plane.settings.put("link.lost_after", 80.0, actor="me", expected=0)


async def test_a_store_that_is_away_keeps_no_node_out(
    plane: Plane, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(node: object) -> None:
        raise Unreachable("the store is away")

    async with opened(plane):
        monkeypatch.setattr(store, "put_node", away)
        await FakeAgent("n1").connect(plane.agents)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.liveness == READY
