"""What a control plane wants of weights: begun once, told at each ask, let go when nobody asks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.base.errors import NotFound, Refused
from llmgw.model.catalog import PathSource, UrlSource
from llmgw.model.commands import ABSENT, CHECKING, FAILED, FETCHING, HELD, WeightsState
from llmgw.model.shard import Progress
from llmgw_agent.weights.errands import LET_GO_AFTER, Errands, Source
from llmgw_agent.weights.sources import Tell
from tests.fakes.clock import FakeClock, settle

URL = UrlSource(url="https://example.org/tiny.gguf", sha256="a" * 64)


class Node:
    """What fetches and checks, as the test says."""

    def __init__(self, clock: FakeClock, group: asyncio.TaskGroup) -> None:
        self.errands = Errands(self._fetch, self._check, clock)
        self.group = group
        self.fetches: list[asyncio.Future[Path | None]] = []
        self.tells: list[Tell] = []
        self.checks: list[asyncio.Future[bool]] = []

    async def ask(self, source: Source = URL, *, check_only: bool = False) -> WeightsState:
        said = self.errands.state(source, self.group, check_only=check_only)
        await settle()
        return said

    async def _fetch(self, source: Source, tell: Tell) -> Path | None:
        self.tells.append(tell)
        self.fetches.append(asyncio.get_running_loop().create_future())
        return await self.fetches[-1]

    async def _check(self, source: Source) -> bool:
        self.checks.append(asyncio.get_running_loop().create_future())
        return await self.checks[-1]


@pytest.fixture
async def node(clock: FakeClock) -> AsyncIterator[Node]:
    async with asyncio.TaskGroup() as group:
        made = Node(clock, group)
        yield made
        waiting: list[asyncio.Future[Any]] = [*made.fetches, *made.checks]
        for future in waiting:
            future.cancel()


async def test_the_first_ask_begins_and_each_further_one_says_how_far_it_is(node: Node):
    assert await node.ask() == WeightsState(state=FETCHING)
    progress = Progress(words="downloading tiny.gguf", done_bytes=5, total_bytes=10)
    node.tells[0](progress)
    assert await node.ask() == WeightsState(state=FETCHING, progress=progress)
    assert len(node.fetches) == 1
    node.fetches[0].set_result(Path("/cache/tiny.gguf"))
    await settle()
    assert await node.ask() == WeightsState(state=HELD)


async def test_a_failure_is_said_once_with_its_hint_and_then_tried_again(node: Node):
    await node.ask()
    node.fetches[0].set_exception(Refused("no room", hint="free some"))
    await settle()
    assert await node.ask() == WeightsState(state=FAILED, words="no room; free some")
    assert await node.ask() == WeightsState(state=FETCHING)
    assert len(node.fetches) == 2
    node.fetches[1].set_exception(OSError(28, "No space left on device"))
    await settle()
    assert "No space left" in ((await node.ask()).words or "")


async def test_checking_fetches_nothing(node: Node):
    assert await node.ask(check_only=True) == WeightsState(state=CHECKING)
    node.checks[0].set_result(False)
    await settle()
    assert await node.ask(check_only=True) == WeightsState(state=ABSENT)
    path = PathSource(path="/m/x.gguf")
    await node.ask(path, check_only=True)
    node.checks[1].set_result(True)
    await settle()
    assert await node.ask(path, check_only=True) == WeightsState(state=HELD)
    await node.ask(path, check_only=True)
    node.checks[2].set_exception(NotFound("/m/x.gguf: no such file on this node"))
    await settle()
    said = await node.ask(path, check_only=True)
    assert said == WeightsState(state=FAILED, words="/m/x.gguf: no such file on this node")
    assert node.fetches == []


async def test_what_nobody_asks_for_is_broken_off_and_what_is_asked_for_goes_on(
    node: Node, clock: FakeClock
):
    other = UrlSource(url="https://example.org/other.gguf")
    await node.ask()
    await node.ask(other)
    await clock.advance(LET_GO_AFTER - 1)
    await node.ask(other)
    await clock.advance(1)
    node.errands.expire()
    await settle()
    assert [future.cancelled() for future in node.fetches] == [True, False]
    await node.ask()
    assert len(node.fetches) == 3
