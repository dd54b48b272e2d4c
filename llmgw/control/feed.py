"""List, then watch: the one way in which anything follows the fleet.

The feed keeps no records. It keeps, per object, the number of its last change, and reads the record
where it lives when a follower's batch is built. So an object that changes ten times between two
batches is encoded once, and a topic that nobody follows costs one dictionary entry a change.

Each follower has a *set* of changed ids, never a queue: a slow follower skips states and its memory
is bounded by the number of objects. A position is a number of changes under an epoch; a follower
that comes back with one is told what changed since, or everything when that is no longer known.
"""

import asyncio
import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from llmgw.base.clock import Clock
from llmgw.base.errors import Unreadable
from llmgw.control.changes import payload, weight_of
from llmgw.model.feed import (
    TOPICS,
    Batch,
    Change,
    Position,
)
from llmgw.model.record import Record

PACE = 0.25
"""Seconds between two batches of one follower: fast for a person, one flush for many changes."""

REMEMBERED = 4096
"""Removed objects whose tombstones are kept for followers that come back."""

BATCH_CHANGES = 500
BATCH_BYTES = 1 << 20
"""A batch is closed at either bound: a message of the link is at most 8 MiB."""

Object = tuple[str, str]
"""A topic and an id."""


@dataclass(frozen=True, slots=True)
class _Source:
    ids: Callable[[], Iterable[str]]
    record: Callable[[str], Record | None]
    refresh: Callable[[], None] | None


class Feed:
    """All topics, their last changes, and who follows them.

    Invariant: a follower that applies all its batches holds, after the last one, exactly what a
    fresh listing would give it.

    Args:
        epoch: new with each start and each leader; a position of another means nothing here.
        clock: the time that batches are paced by.
        pace: seconds between two batches of one follower.
    """

    def __init__(self, epoch: str, clock: Clock, *, pace: float = PACE) -> None:
        self.epoch = epoch
        self.clock = clock
        self.pace = pace
        self.closed = False
        self.number = 1
        self._forgotten = 0
        self._marks: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self._sources: dict[str, _Source] = {}
        self._changed: dict[str, dict[str, int]] = {topic: {} for topic in TOPICS}
        self._followers: dict[str, dict[Follower, None]] = {topic: {} for topic in TOPICS}
        """By topic, in the order in which they came: the same run takes the same steps."""
        self._encoded: dict[Object, Change] = {}
        self._touched: set[str] = set()

    def serve(
        self,
        topic: str,
        ids: Callable[[], Iterable[str]],
        record: Callable[[str], Record | None],
        refresh: Callable[[], None] | None = None,
    ) -> None:
        """Say where a topic's records live.

        Args:
            topic: one of `TOPICS`.
            ids: the ids of all its objects.
            record: one object's latest record; None when it is gone.
            refresh: computes a topic that is derived, and marks what changed; called after `touch`.
        """
        self._sources[topic] = _Source(ids, record, refresh)

    def mark(self, topic: str, object_id: str) -> None:
        """Say that one object changed, or is gone."""
        self.number += 1
        numbers = self._changed[topic]
        numbers[object_id] = self.number
        self._encoded.pop((topic, object_id), None)
        for follower in self._followers[topic]:
            follower.note(topic, object_id)
        self._marks[topic] += 1
        if self._marks[topic] % REMEMBERED == 0:
            self._forget(topic)

    def touch(self, topic: str) -> None:
        """Say that a derived topic may have changed; it is computed once, when somebody reads."""
        self._touched.add(topic)
        for follower in self._followers[topic]:
            follower.awaken()

    def refresh(self, topics: Iterable[str]) -> None:
        """Compute the touched ones of these topics and mark what changed in them."""
        for topic in topics:
            if topic in self._touched:
                self._touched.discard(topic)
                source = self._sources.get(topic)
                if source is not None and source.refresh is not None:
                    source.refresh()

    def position(self) -> Position:
        """Return where the feed is now."""
        return Position(epoch=self.epoch, number=self.number)

    def listing(self, topics: Sequence[str]) -> Batch:
        """Return every object of these topics in one batch.

        Raises:
            Unreadable: there is no such topic.
        """
        _known(topics)
        self.refresh(topics)
        changes = [self.change(one) for one in self.objects(topics)]
        return Batch(
            position=Position(epoch=self.epoch, number=self.number),
            topics=tuple(topics),
            listing=True,
            changes=tuple(change for change in changes if change.record is not None),
        )

    def follow(self, topics: Sequence[str], position: Position | None = None) -> "Follower":
        """Return a follower of these topics; whoever asked for it closes it.

        Without a position, or with one from before what the feed remembers, it lists first.

        Raises:
            Unreadable: there is no such topic.
        """
        _known(topics)
        self.refresh(topics)
        follower = Follower(self, tuple(dict.fromkeys(topics)))
        if position is None or not self._remembers(position):
            follower.relist()
        else:
            for topic in follower.topics:
                for object_id, number in self._changed[topic].items():
                    if number > position.number:
                        follower.note(topic, object_id)
        for topic in follower.topics:
            self._followers[topic][follower] = None
        return follower

    def renew(self, epoch: str) -> None:
        """Begin another epoch: what was told so far no longer counts, and every follower lists."""
        self.epoch = epoch
        for followers in self._followers.values():
            for follower in followers:
                follower.relist()

    def close(self) -> None:
        """End every follower: its iteration stops."""
        self.closed = True
        for followers in self._followers.values():
            for follower in followers:
                follower.awaken()

    @property
    def followers(self) -> int:
        """Return how many follow."""
        return len({follower for some in self._followers.values() for follower in some})

    # What a follower needs of its feed.

    def leave(self, follower: "Follower") -> None:
        """Forget a follower."""
        for topic in follower.topics:
            self._followers[topic].pop(follower, None)

    def objects(self, topics: Iterable[str]) -> list[Object]:
        """Return all objects of these topics that are there now."""
        found: list[Object] = []
        for topic in topics:
            source = self._sources.get(topic)
            if source is not None:
                found += [(topic, object_id) for object_id in source.ids()]
        return found

    def change(self, one: Object) -> Change:
        """Return an object's latest record as it is sent; encoded once for all followers."""
        known = self._encoded.get(one)
        if known is None:
            topic, object_id = one
            source = self._sources.get(topic)
            record = None if source is None else source.record(object_id)
            known = Change(topic=topic, id=object_id, record=payload(record))
            if record is not None:
                self._encoded[one] = known
        return known

    def number_of(self, one: Object) -> int:
        """Return the number of an object's last change; 0 when it never changed in this epoch."""
        return self._changed[one[0]].get(one[1], 0)

    def _remembers(self, position: Position) -> bool:
        oldest = max(1, self._forgotten)
        return position.epoch == self.epoch and oldest <= position.number <= self.number

    def _forget(self, topic: str) -> None:
        """Drop the oldest tombstones beyond what is remembered."""
        source = self._sources.get(topic)
        live = set(source.ids()) if source is not None else set()
        numbers = self._changed[topic]
        dead = sorted((number, one) for one, number in numbers.items() if one not in live)
        for number, object_id in dead[: max(0, len(dead) - REMEMBERED // 2)]:
            del numbers[object_id]
            self._forgotten = max(self._forgotten, number)


class Follower:
    """One reader of the feed: iterate over it for batches, close it when done.

    The first batch comes at once, even when it is empty: it says that the reader is up to date.
    `listing` is set on the first batch of a listing alone. While `more` follows, a batch carries
    the number 0, from which nobody can resume: half a listing is not a place to come back to.
    """

    def __init__(self, feed: Feed, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._feed = feed
        self._changed: dict[Object, None] = {}
        self._most = REMEMBERED
        self._listing: list[Object] | None = None
        self._listed_any = False
        self._event = asyncio.Event()
        self._event.set()
        self._last = float("-inf")
        self._first = True
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch, at the earliest one pace after the last."""
        while not self._over():
            await self._event.wait()
            if not self._over() and (self._listing is None or not self._listed_any):
                await self._pace()
            batch = None if self._over() else self.take()
            if batch is not None:
                return batch
        self.close()
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop following."""
        self._closed = True
        self._changed.clear()
        self._feed.leave(self)
        self.awaken()

    def note(self, topic: str, object_id: str) -> None:
        """Remember that an object changed."""
        one = (topic, object_id)
        self._changed[one] = None
        self._event.set()
        if len(self._changed) > self._most:
            self._most = REMEMBERED + len(self._feed.objects(self.topics))
            if len(self._changed) > self._most:
                self.relist()

    def relist(self) -> None:
        """Start again with a listing: too much changed to tell it apart."""
        self._changed.clear()
        self._listing = self._feed.objects(self.topics)
        self._listed_any = False
        self._event.set()

    def awaken(self) -> None:
        """Look again whether there is something to send."""
        self._event.set()

    def take(self) -> Batch | None:
        """Return the batch that is due now; None when nothing changed."""
        self._feed.refresh(self.topics)
        self._last = self._feed.clock.monotonic()
        if self._listing is not None:
            return self._take_listing(self._listing)
        first, self._first = self._first, False
        if not self._changed and not first:
            self._event.clear()
            return None
        waiting = sorted(self._changed, key=self._feed.number_of)
        changes, rest = self._fill(waiting)
        for one in waiting[: len(waiting) - len(rest)]:
            del self._changed[one]
        number = self._feed.number_of((changes[-1].topic, changes[-1].id)) if rest else None
        if not rest:
            self._event.clear()
        return self._batch(changes, number=number)

    def _take_listing(self, listing: list[Object]) -> Batch:
        changes, rest = self._fill(listing)
        beginning = not self._listed_any
        self._listed_any = True
        self._listing = rest or None
        self._first = False
        if not rest and not self._changed:
            self._event.clear()
        present = [change for change in changes if change.record is not None]
        number = 0 if rest else self._start_of_changes()
        return self._batch(present, number=number, listing=beginning, more=bool(rest))

    def _start_of_changes(self) -> int | None:
        """Return the highest number up to which all is told; later changes are still to come."""
        numbers = [self._feed.number_of(one) for one in self._changed]
        return min(numbers) - 1 if numbers else None

    def _fill(self, waiting: list[Object]) -> tuple[list[Change], list[Object]]:
        changes: list[Change] = []
        weight = 0
        for one in waiting:
            if len(changes) >= BATCH_CHANGES or weight >= BATCH_BYTES:
                break
            change = self._feed.change(one)
            weight += weight_of(change)
            changes.append(change)
        return changes, waiting[len(changes) :]

    def _batch(
        self,
        changes: list[Change],
        *,
        number: int | None,
        listing: bool = False,
        more: bool = False,
    ) -> Batch:
        reached = self._feed.number if number is None else number
        return Batch(
            position=Position(epoch=self._feed.epoch, number=reached),
            topics=self.topics,
            listing=listing,
            more=more,
            changes=tuple(changes),
        )

    def _over(self) -> bool:
        return self._closed or self._feed.closed

    async def _pace(self) -> None:
        due = self._last + self._feed.pace
        left = due - self._feed.clock.monotonic()
        if left > 0:
            await self._feed.clock.sleep(left)


def _known(topics: Iterable[str]) -> None:
    for topic in topics:
        if topic not in TOPICS:
            near = difflib.get_close_matches(topic, TOPICS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "topics are " + ", ".join(TOPICS)
            raise Unreadable(f"no such topic: {topic!r}", hint=hint)
