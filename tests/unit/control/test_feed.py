"""The feed: a follower that applies its batches holds what a fresh listing gives, however slow."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.control import feed as feed_module
from llmgw.control.feed import Feed, Follower
from llmgw.model.feed import MODELS, NODES, ROUTES, SAMPLES, Batch, Change, JsonChange, Position
from llmgw.model.gateway import Route
from llmgw.model.record import Record
from tests.fakes.clock import FakeClock, settle


class Thing(Record, frozen=True, kw_only=True):
    """A record of some topic."""

    id: str
    value: int


class Table:
    """Records of one topic, marked in a feed as they change."""

    def __init__(self, feed: Feed, topic: str) -> None:
        self.feed = feed
        self.topic = topic
        self.records: dict[str, Thing] = {}
        self.read = 0
        feed.serve(topic, lambda: tuple(self.records), self.get)

    def get(self, object_id: str) -> Thing | None:
        self.read += 1
        return self.records.get(object_id)

    def put(self, object_id: str, value: int) -> None:
        self.records[object_id] = Thing(id=object_id, value=value)
        self.feed.mark(self.topic, object_id)

    def remove(self, object_id: str) -> None:
        self.records.pop(object_id, None)
        self.feed.mark(self.topic, object_id)


class View:
    """What a reader holds that applies batches as the protocol says."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], object] = {}
        self.position: Position | None = None
        self.whole = False

    def apply(self, batch: Batch) -> None:
        if batch.listing:
            self.records.clear()
        for change in batch.changes:
            if change.record is None:
                self.records.pop((change.topic, change.id), None)
            else:
                self.records[change.topic, change.id] = change.record
        self.position = batch.position
        self.whole = not batch.more


def drained(follower: Follower) -> Iterator[Batch]:
    while (batch := follower.take()) is not None:
        yield batch


def listed(feed: Feed, *topics: str) -> dict[tuple[str, str], object]:
    return {(c.topic, c.id): c.record for c in feed.listing(topics).changes}


@pytest.fixture
def feed(clock: FakeClock) -> Feed:
    return Feed("e1", clock)


def value_of(change: Change) -> int:
    assert isinstance(change.record, JsonChange)
    return msgspec.json.decode(change.record.value, type=Thing).value


async def test_a_follower_lists_first_and_then_is_told_what_changes(
    feed: Feed, clock: FakeClock
) -> None:
    table = Table(feed, NODES)
    table.put("a", 1)
    with feed.follow([NODES]) as follower:
        first = await anext(follower)
        assert (first.listing, first.more, [c.id for c in first.changes]) == (True, False, ["a"])
        table.put("b", 2)
        table.remove("a")
        waiting = asyncio.ensure_future(anext(follower))
        await clock.advance(0.3)
        batch = await waiting
    assert not batch.listing
    assert [(c.id, c.record is None) for c in batch.changes] == [("b", False), ("a", True)]
    assert batch.position == feed.position()


async def test_an_object_that_changes_often_is_sent_once_a_pace_with_its_latest_state(
    feed: Feed, clock: FakeClock
) -> None:
    table = Table(feed, NODES)
    with feed.follow([NODES]) as follower:
        await anext(follower)
        waiting = asyncio.ensure_future(anext(follower))
        for value in range(10):
            table.put("a", value)
            await clock.advance(0.02)
        assert not waiting.done()
        await clock.advance(0.1)
        batch = await waiting
    assert [value_of(change) for change in batch.changes] == [9]


async def test_a_topic_that_nobody_follows_is_never_read(feed: Feed) -> None:
    samples = Table(feed, SAMPLES)
    with feed.follow([NODES]) as follower:
        follower.take()
        samples.put("a", 1)
        assert follower.take() is None
    assert samples.read == 0


async def test_a_record_is_encoded_once_for_all_followers(feed: Feed) -> None:
    table = Table(feed, NODES)
    table.put("a", 1)
    for _ in range(3):
        with feed.follow([NODES]) as follower:
            follower.take()
    assert table.read == 1


async def test_a_position_of_this_epoch_is_resumed_and_one_of_another_is_listed(
    feed: Feed,
) -> None:
    table = Table(feed, NODES)
    table.put("a", 1)
    position = feed.position()
    table.put("b", 2)
    with feed.follow([NODES], position) as follower:
        batch = follower.take()
        assert batch is not None
        assert (batch.listing, [c.id for c in batch.changes]) == (False, ["b"])
    with feed.follow([NODES], Position(epoch="e0", number=position.number)) as follower:
        batch = follower.take()
        assert batch is not None
        assert batch.listing


async def test_a_position_from_the_future_or_of_half_a_listing_is_listed(feed: Feed) -> None:
    Table(feed, NODES).put("a", 1)
    for number in (0, feed.position().number + 1):
        with feed.follow([NODES], Position(epoch="e1", number=number)) as follower:
            batch = follower.take()
            assert batch is not None
            assert batch.listing


async def test_a_follower_that_is_up_to_date_is_told_so_at_once(feed: Feed) -> None:
    Table(feed, NODES).put("a", 1)
    with feed.follow([NODES], feed.position()) as follower:
        batch = await anext(follower)
    assert (batch.changes, batch.position) == ((), feed.position())


async def test_a_long_listing_comes_in_parts_that_nobody_can_resume_in_the_middle(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "BATCH_CHANGES", 2)
    table = Table(feed, NODES)
    for number in range(5):
        table.put(f"n{number}", number)
    with feed.follow([NODES]) as follower:
        batches = list(drained(follower))
    assert [(b.listing, b.more, len(b.changes)) for b in batches] == [
        (True, True, 2),
        (False, True, 2),
        (False, False, 1),
    ]
    assert [b.position.number for b in batches[:2]] == [0, 0]
    assert batches[2].position == feed.position()


async def test_a_batch_is_closed_by_its_bytes_too(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "BATCH_BYTES", 1)
    table = Table(feed, NODES)
    for number in range(3):
        table.put(f"n{number}", number)
    with feed.follow([NODES]) as follower:
        assert [len(batch.changes) for batch in drained(follower)] == [1, 1, 1]


async def test_a_slow_follower_of_much_that_came_and_went_lists_again(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "REMEMBERED", 10)
    table = Table(feed, NODES)
    view = View()
    with feed.follow([NODES]) as follower:
        for batch in drained(follower):
            view.apply(batch)
        for number in range(100):
            table.put(f"n{number}", number)
            table.remove(f"n{number - 1}")
        batches = list(drained(follower))
        for batch in batches:
            view.apply(batch)
    assert batches[0].listing
    assert view.records == listed(feed, NODES)
    assert sum(len(batch.changes) for batch in batches) < 20


async def test_forgotten_tombstones_make_an_old_position_list_again(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "REMEMBERED", 8)
    table = Table(feed, NODES)
    table.put("stays", 0)
    old = feed.position()
    for number in range(40):
        table.put(f"n{number}", number)
        table.remove(f"n{number}")
    with feed.follow([NODES], old) as follower:
        batch = follower.take()
        assert batch is not None
        assert batch.listing


async def test_a_derived_topic_is_computed_once_however_often_it_is_touched(feed: Feed) -> None:
    routes = {"m": Route(model="m", wanted=1)}
    computed = 0

    def refresh() -> None:
        nonlocal computed
        computed += 1
        routes["m"] = Route(model="m", wanted=2)
        feed.mark(ROUTES, "m")

    feed.serve(ROUTES, lambda: tuple(routes), routes.get, refresh)
    with feed.follow([ROUTES]) as one, feed.follow([ROUTES]) as other:
        one.take()
        other.take()
        for _ in range(5):
            feed.touch(ROUTES)
        batches = [one.take(), other.take()]
    assert computed == 1
    assert all(batch is not None and len(batch.changes) == 1 for batch in batches)


async def test_touching_a_derived_topic_wakes_its_followers(feed: Feed, clock: FakeClock) -> None:
    routes = {"m": Route(model="m")}
    feed.serve(ROUTES, lambda: tuple(routes), routes.get, lambda: feed.mark(ROUTES, "m"))
    with feed.follow([ROUTES]) as follower:
        await anext(follower)
        waiting = asyncio.ensure_future(anext(follower))
        await clock.advance(1.0)
        assert not waiting.done()
        feed.touch(ROUTES)
        await clock.advance(0.3)
        batch = await waiting
    assert [change.id for change in batch.changes] == ["m"]


async def test_an_unknown_topic_is_refused_with_the_nearest_name(feed: Feed) -> None:
    with pytest.raises(Unreadable, match="'node'") as refused:
        feed.follow(["node"])
    assert refused.value.hint == "did you mean 'nodes'?"


async def test_closing_the_feed_ends_every_follower(feed: Feed) -> None:
    follower = feed.follow([NODES])
    await anext(follower)
    waiting = asyncio.ensure_future(anext(follower, None))
    await settle()
    feed.close()
    assert await waiting is None
    assert feed.followers == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([NODES, MODELS]), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.sampled_from([NODES, MODELS]), st.integers(0, 9)),
        st.tuples(st.just("take"), st.just(""), st.integers(1, 3)),
        st.tuples(st.just("reconnect"), st.just(""), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=100)
@given(steps=STEPS, bound=st.integers(1, 4), remembered=st.integers(2, 6))
def test_a_follower_that_applies_its_batches_equals_a_fresh_listing(
    steps: list[tuple[str, str, int]], bound: int, remembered: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed_module, "BATCH_CHANGES", bound)
        patch.setattr(feed_module, "REMEMBERED", remembered)
        feed = Feed("e1", FakeClock())
        tables = {topic: Table(feed, topic) for topic in (NODES, MODELS)}
        view = View()
        follower = feed.follow([NODES, MODELS])
        for number, (what, topic, argument) in enumerate(steps):
            if what == "put":
                tables[topic].put(f"o{argument}", number)
            elif what == "remove":
                tables[topic].remove(f"o{argument}")
            elif what == "reconnect":
                follower.close()
                follower = feed.follow([NODES, MODELS], view.position)
            else:
                for _ in range(argument):
                    batch = follower.take()
                    if batch is not None:
                        view.apply(batch)
        for batch in drained(follower):
            view.apply(batch)
        assert view.whole
        assert view.records == listed(feed, NODES, MODELS)
        assert view.position == feed.position()
