"""One list, then one open watch, through lost connections."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import pytest

from llmgw.base.errors import LlmgwError, Unreachable
from llmgw.client.errors import Unauthorized
from llmgw.client.interface import LIVE, RECONNECTING, STALE, Change, WatchBatch
from llmgw.client.watching import STALE_AFTER, Watch
from tests.fakes.clock import FakeClock

EPOCH = "e1"


class Always(random.Random):
    """Waits as long as the back-off allows."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Server:
    """An admin API: a test says what each list answers and what each watch sends."""

    def __init__(self) -> None:
        self.lists: list[Any] = []
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self.down: LlmgwError | None = None
        self._open: asyncio.Queue[Any] = asyncio.Queue()

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        self.asked.append((path, query or {}))
        if self.down is not None:
            raise self.down
        return self.lists.pop(0)

    async def events(
        self, path: str, query: Mapping[str, object]
    ) -> AsyncGenerator[Any | None, None]:
        self.asked.append((path, query))
        if self.down is not None:
            raise self.down
        yield None
        while True:
            event = await self._open.get()
            if isinstance(event, LlmgwError):
                raise event
            if event == "end":
                return
            yield event

    def send(self, event: Any) -> None:
        self._open.put_nowait(event)


class Viewer:
    """Reads a watch in a task, so that a test can look at what arrived."""

    def __init__(self, watch: Watch) -> None:
        self.batches: list[WatchBatch] = []
        self.task = asyncio.ensure_future(self._read(watch))

    async def _read(self, watch: Watch) -> None:
        async for batch in watch.follow():
            self.batches.append(batch)

    @property
    def states(self) -> list[str]:
        return [batch.connection.state for batch in self.batches]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def listing(*ids: str, number: int = 5, epoch: str = EPOCH) -> dict[str, Any]:
    return {
        "position": {"epoch": epoch, "number": number},
        "topics": {"nodes": [{"id": one} for one in ids]},
        "ids": {"nodes": list(ids)},
    }


def event(
    *changes: tuple[str, Any], number: int = 6, epoch: str = EPOCH, listing: bool = False
) -> dict[str, Any]:
    return {
        "position": {"epoch": epoch, "number": number},
        "listing": listing,
        "more": False,
        "changes": [{"topic": "nodes", "id": id_, "record": record} for id_, record in changes],
    }


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def viewer(server: Server, clock: FakeClock) -> AsyncIterator[Viewer]:
    server.lists.append(listing("a", "b"))
    viewer = Viewer(Watch(server, ["nodes", "keys"], clock, Always()))
    await clock.advance(0)
    yield viewer
    await viewer.end()


async def test_it_lists_once_and_watches_from_there(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    server.send(event(("a", {"id": "a", "x": 1}), ("b", None)))
    await clock.advance(0)
    assert server.asked == [
        ("/list", {"topics": "nodes,keys"}),
        ("/watch", {"topics": "nodes,keys", "epoch": EPOCH, "number": 5}),
    ]
    first, second = viewer.batches
    assert first.listing
    assert first.changes == (Change("nodes", "a", {"id": "a"}), Change("nodes", "b", {"id": "b"}))
    assert not second.listing
    assert second.changes == (
        Change("nodes", "a", {"id": "a", "x": 1}),
        Change("nodes", "b", None),
    )
    assert viewer.states == [LIVE, LIVE]


async def test_after_a_loss_it_asks_for_what_came_after_and_lists_no_more(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    server.send(event(("a", {"id": "a"}), number=9))
    server.send(Unreachable("the cable is out"))
    await clock.advance(0.1)
    assert viewer.states[-1] == RECONNECTING
    assert viewer.batches[-1].connection.words == "the cable is out"
    await clock.advance(0.4)
    assert viewer.states[-1] == LIVE
    assert server.asked[1:] == [
        ("/watch", {"topics": "nodes,keys", "epoch": EPOCH, "number": 5}),
        ("/watch", {"topics": "nodes,keys", "epoch": EPOCH, "number": 9}),
    ]


async def test_a_server_that_began_anew_answers_with_a_listing(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    server.send("end")
    await clock.advance(0.5)
    server.send(event(("c", {"id": "c"}), epoch="e2", number=1, listing=True))
    server.send("end")
    await clock.advance(2)
    assert next(batch for batch in viewer.batches[1:] if batch.listing).changes == (
        Change("nodes", "c", {"id": "c"}),
    )
    assert server.asked[-1][1]["epoch"] == "e2"


async def test_it_waits_longer_each_time_and_says_when_what_is_shown_is_old(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    lost_at = clock.now()
    server.down = Unreachable("nothing listens")
    server.send("end")
    await clock.advance(STALE_AFTER - 0.1)
    # At 0.5, then after 1, 2, 4 and 5 seconds more.
    assert len(server.asked) == 2 + 5
    assert set(viewer.states[1:]) == {RECONNECTING}
    assert {batch.connection.since for batch in viewer.batches[1:]} == {lost_at}
    await clock.advance(0.1)
    last = viewer.batches[-1].connection
    assert last.state == STALE
    assert last.since == lost_at + STALE_AFTER
    assert last.heard == lost_at
    assert last.words == "nothing listens"


async def test_it_is_live_again_as_soon_as_the_server_is(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    server.down = Unreachable("nothing listens")
    server.send("end")
    await clock.advance(60)
    assert viewer.states[-1] == STALE
    server.down = None
    await clock.advance(5)
    assert viewer.batches[-1].connection.state == LIVE
    assert viewer.batches[-1].connection.words == ""
    server.send("end")
    await clock.advance(0.5)
    assert viewer.states[-1] == LIVE


async def test_a_server_that_is_away_at_first_is_waited_for(
    server: Server, clock: FakeClock
) -> None:
    server.down = Unreachable("nothing listens")
    viewer = Viewer(Watch(server, ["nodes"], clock, Always()))
    await clock.advance(1)
    assert viewer.states[0] == RECONNECTING
    assert viewer.batches[0].connection.heard is None
    server.down = None
    server.lists.append(listing("a"))
    await clock.advance(5)
    assert viewer.batches[-1].listing
    await viewer.end()


async def test_a_token_that_is_not_known_ends_it(server: Server, clock: FakeClock) -> None:
    server.down = Unauthorized("the token is not known")
    with pytest.raises(Unauthorized):
        async for _ in Watch(server, ["nodes"], clock, Always()).follow():
            pass
    assert len(server.asked) == 1


async def test_a_fault_of_the_server_is_waited_out(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    server.send(LlmgwError("the control plane failed on this request"))
    await clock.advance(0.5)
    assert RECONNECTING in viewer.states
    assert viewer.states[-1] == LIVE


async def test_a_comment_tells_nothing_but_that_it_lives(
    server: Server, viewer: Viewer, clock: FakeClock
) -> None:
    await clock.advance(10)
    server.send(None)
    await clock.advance(0)
    assert len(viewer.batches) == 1
    server.send("end")
    await clock.advance(0)
    assert viewer.batches[-1].connection.heard == clock.now()
