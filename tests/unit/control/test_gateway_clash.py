"""Two gateways with one id: the first keeps its place while it lives, and everybody is told."""

import pytest

from llmgw.base.errors import Refused
from llmgw.control.plane import Plane
from llmgw.model.link import GatewayMessage, Pong
from tests.fakes.clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened, pass_time, running
from tests.unit.control.calling import Caller

COPY = "10.0.0.2:6"


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock, MemoryStore())


async def connected(plane: Plane, peer: str, boot: str | None, serial: str = "01") -> Caller:
    caller = Caller(plane, serial=serial)
    caller.stream.peer = peer
    return await caller.register(boot=boot)


async def alive(clock: FakeClock, caller: Caller, seconds: float) -> None:
    """Let time pass while a gateway answers its pings."""
    for _ in range(round(seconds / 5)):
        caller.stream.say(GatewayMessage(pong=Pong(number=1)))
        await pass_time(clock, 5)


def told(plane: Plane) -> list[str]:
    return [one.words for one in plane.events.recent() if "two gateways" in one.words]


@pytest.mark.parametrize("serial", ["01", "02"])
async def test_another_gateway_with_the_same_id_is_refused_and_both_are_named(
    plane: Plane, clock: FakeClock, serial: str
) -> None:
    async with running(plane):
        first = await connected(plane, "10.0.0.1:5", "b1")
        await alive(clock, first, 60)
        copy = await connected(plane, COPY, "b2", serial)
        assert isinstance(copy.ended, Refused)
        assert f"10.0.0.1:5 keeps the id, {COPY} is another gateway" in copy.ended.message
        assert copy.stream.sent == []
        assert first.stream.aborted is None
        assert [(g.connected, g.peer) for g in plane.gateways.all()] == [(True, "10.0.0.1:5")]
        assert told(plane) == [
            f"two gateways use the id g1: 10.0.0.1:5 is connected, {COPY} was refused"
        ]


async def test_a_refused_gateway_that_tries_again_and_again_is_told_of_once(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        first = await connected(plane, "10.0.0.1:5", "b1")
        for port in range(30):
            await alive(clock, first, 10)
            await connected(plane, f"10.0.0.2:{port}", "b2")
        assert len(told(plane)) == 1
        await connected(plane, "10.0.0.3:1", "b3")
        assert len(told(plane)) == 2
        await alive(clock, first, 130)
        await connected(plane, "10.0.0.3:2", "b3")
        assert len(told(plane)) == 3


@pytest.mark.parametrize("how", ["closed", "cut without a word", "cannot say"])
async def test_a_restarted_gateway_takes_the_place_of_the_one_that_is_gone(
    plane: Plane, clock: FakeClock, how: str
) -> None:
    async with running(plane):
        first = await connected(plane, "10.0.0.1:5", "b1")
        await alive(clock, first, 20)
        if how == "closed":
            first.stream.sever()
            await first.task
        if how == "cut without a word":
            await pass_time(clock, 10)
        again = await connected(plane, "10.0.0.1:6", None if how == "cannot say" else "b2")
        assert again.ended is None
        assert again.stream.sent[0].welcome is not None
        assert told(plane) == []


async def test_the_newest_stream_of_the_same_gateway_wins_at_once(plane: Plane) -> None:
    async with opened(plane):
        first = await connected(plane, "10.0.0.1:5", "b1")
        again = await connected(plane, "10.0.0.1:6", "b1")
        assert first.stream.aborted == "g1 opened a newer stream from 10.0.0.1:6"
        assert again.ended is None
        assert [g.peer for g in plane.gateways.all()] == ["10.0.0.1:6"]
