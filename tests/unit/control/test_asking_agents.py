"""Asking agents: what a request carries, its four ends, and logs that are followed."""

import asyncio

import pytest

from llmgw.base.errors import NotFound, Refused, TimedOut, Unreachable
from llmgw.control.plane import Plane
from llmgw.model.commands import CancelRequest, Declined, LogLines, RemoveWeights, Reply, StopShard
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import health, make_plane, opened
from tests.fakes.scripted_agent import FakeAgent

STOP = StopShard(replica="tiny-aaa111")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


async def test_an_unknown_node_is_not_found_and_a_gone_one_unreachable(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        with pytest.raises(NotFound, match="no node 'n1'"):
            await plane.agents.ask("n1", STOP)
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await agent.sever()
        await clock.advance(20)
        with pytest.raises(Unreachable, match=r"n1 has no stream .* last heard 20s ago"):
            await plane.agents.ask("n1", STOP)


async def test_a_request_is_not_sent_to_an_agent_that_does_not_list_its_feature(
    plane: Plane,
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.version = "0.0.9"
        await agent.connect(plane.agents)
        with pytest.raises(Refused) as refused:
            await plane.agents.ask("n1", RemoveWeights(names=("a", "b")))
        assert refused.value.message == (
            "n1 runs llmgw 0.0.9, which can't remove 2 sets of weights: "
            "llmgw 0.2.0 has 'remove_weights'"
        )
        assert agent.commands == []


async def test_an_agent_that_cannot_say_its_features_is_asked_nothing(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", features=None)
        await agent.connect(plane.agents)
        with pytest.raises(Refused):
            await plane.agents.ask("n1", STOP)
        assert agent.commands == []


async def test_an_agent_that_does_not_answer_is_stuck_until_it_answers_anything(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.silent = True
        await agent.connect(plane.agents)
        asking = asyncio.ensure_future(plane.agents.ask("n1", STOP))
        await clock.advance(9.9)
        assert not asking.done()
        await clock.advance(0.2)
        with pytest.raises(TimedOut) as stuck:
            await asking
        assert stuck.value.message == (
            "n1 (llmgw 0.1.0) is stuck: asked to stop tiny-aaa111/0 10s ago, no answer"
        )
        assert health(plane, "n1") == ("is stuck (llmgw 0.1.0): does not answer requests",)
        agent.say(reply=Reply(id=agent.commands[-1].id, answer=None))
        await settle()
        assert health(plane, "n1") == ()


async def test_a_request_ends_with_its_stream(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.silent = True
        await agent.connect(plane.agents)
        asking = asyncio.ensure_future(plane.agents.ask("n1", STOP))
        await settle()
        await agent.sever()
        with pytest.raises(Unreachable, match="the stream of n1 ended before it could stop"):
            await asking


async def test_an_answer_of_another_stream_does_not_count(plane: Plane, clock: FakeClock) -> None:
    async with opened(plane):
        one, other = FakeAgent("n1"), FakeAgent("n2")
        one.silent = True
        await one.connect(plane.agents)
        await other.connect(plane.agents)
        asking = asyncio.ensure_future(plane.agents.ask("n1", STOP))
        await settle()
        other.say(reply=Reply(id=one.commands[-1].id, answer=Declined(words="no")))
        await clock.advance(11)
        with pytest.raises(TimedOut):
            await asking


async def test_a_refusal_comes_in_the_nodes_own_words(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.declines = Declined(words="no such shard", not_found=True)
        with pytest.raises(NotFound, match="n1: no such shard"):
            await plane.agents.ask("n1", STOP)
        agent.declines = Declined(words="the disk is full", hint="free some")
        with pytest.raises(Refused, match="n1: the disk is full") as refused:
            await plane.agents.ask("n1", STOP)
        assert refused.value.hint == "free some"


async def test_a_stale_term_is_raised_above_the_one_that_the_agent_knows(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.declines = Declined(words="stale", stale_term=9)
        with pytest.raises(Refused, match="knows a newer leader"):
            await plane.agents.ask("n1", STOP)
        assert plane.term == 10
        agent.declines = None
        await plane.agents.ask("n1", STOP)
        assert agent.commands[-1].term == 10


async def test_a_control_plane_that_does_not_lead_commands_nobody(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        plane.leadership.resign()
        with pytest.raises(Refused, match="does not lead"):
            await plane.agents.ask("n1", STOP)
        assert agent.commands == []


# Logs.


async def test_a_log_is_followed_until_the_reader_stops(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        following = plane.agents.follow_logs("n1", lines=1)
        assert (await anext(following)).lines == ("second line",)
        agent.follows("third line", dropped=2)
        assert (await anext(following)).lines == ("third line",)
        request = agent.commands[-1].id
        await following.aclose()
        assert agent.requests(CancelRequest) == [CancelRequest(request=request)]
        agent.say(log_lines=LogLines(request=request, lines=("nobody reads this",)))
        await settle()
        assert plane.agents.connected("n1")


async def test_a_slow_reader_of_a_log_loses_the_oldest_lines_and_is_told_how_many(
    plane: Plane,
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        following = plane.agents.follow_logs("n1")
        await anext(following)
        for number in range(2500):
            agent.follows(f"line {number}")
        await settle()
        piece = await anext(following)
        assert (len(piece.lines), piece.dropped, piece.lines[-1]) == (2000, 500, "line 2499")


async def test_following_ends_with_the_stream(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        following = plane.agents.follow_logs("n1")
        await anext(following)
        await agent.sever()
        with pytest.raises(Unreachable, match="the stream of n1 ended"):
            await anext(following)


# Heartbeats and settings.


async def test_each_heartbeat_is_answered_with_a_ping(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        for _ in range(3):
            agent.beat()
        await settle()
        pings = [one.ping.number for one in agent.controls if one.ping is not None]
        assert pings == [1, 2, 3]
