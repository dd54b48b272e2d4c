"""One list, then one open watch, for ever: what every live view is fed from."""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.errors import Conflict, LlmgwError, NotFound, Refused, Unreadable, Usage
from llmgw.client.interface import (
    LIVE,
    RECONNECTING,
    STALE,
    Change,
    Connection,
    Decoded,
    WatchBatch,
)

BACKOFF = Backoff(first=0.5, most=5.0)
FINAL = (Refused, NotFound, Usage, Unreadable, Conflict)
"""Errors that another attempt would not change; all others are a lost connection."""
STALE_AFTER = 15.0
"""Seconds without a word after which what is on a screen is called stale."""


class Source(Protocol):
    """Where a watch gets its answers from."""

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Decoded:
        """Return what is at a path, decoded."""
        ...

    def events(self, path: str, query: Mapping[str, object]) -> AsyncGenerator[Any | None, None]:
        """Open a stream and yield its events, decoded; None when it opened, and for a comment.

        Raises:
            Unreachable: it could not be opened, or it broke, or was silent for too long.
        """
        ...


class Watch:
    """Follows topics through lost connections.

    After a loss it asks for what came after its last position: the server answers with changes, or
    with a listing when it began anew meanwhile.

    Args:
        source: the admin API.
        topics: what to follow.
        clock: for the times that are told, and for waiting.
        rng: for the waits between attempts.
    """

    def __init__(
        self, source: Source, topics: Sequence[str], clock: Clock, rng: random.Random
    ) -> None:
        self._source = source
        self._topics = ",".join(topics)
        self._clock = clock
        self._rng = rng
        self._position: Mapping[str, Any] | None = None
        self._attempt = 0
        self._heard_monotonic = clock.monotonic()
        self._connection = Connection(
            state=RECONNECTING, since=clock.now(), heard=None, words="connecting"
        )

    async def follow(self) -> AsyncGenerator[WatchBatch, None]:
        """Yield listings, changes and states of the connection until the caller stops."""
        while True:
            try:
                async with aclosing(self._attached()) as batches:
                    async for batch in batches:
                        yield batch
                words = "the control plane ended the stream"
            except FINAL:
                raise
            except LlmgwError as error:
                words = error.message
            yield self._lost(words)
            async for batch in self._pause():
                yield batch

    async def _attached(self) -> AsyncGenerator[WatchBatch, None]:
        """List if nothing is known yet, then yield from one open watch until it ends."""
        if self._position is None:
            listed = await self._source.get("/list", {"topics": self._topics})
            yield self._listed(listed)
        position = self._position or {}
        query = {
            "topics": self._topics,
            "epoch": position.get("epoch"),
            "number": position.get("number"),
        }
        async with aclosing(self._source.events("/watch", query)) as events:
            async for event in events:
                known = self._connection.state
                self._heard()
                if event is not None:
                    yield self._changed(event)
                elif known != LIVE:
                    yield WatchBatch(connection=self._connection)

    def _listed(self, listed: Mapping[str, Any]) -> WatchBatch:
        self._position = listed["position"]
        self._heard()
        changes = tuple(
            Change(topic=topic, id=id_, record=record)
            for topic, records in listed["topics"].items()
            for id_, record in zip(listed["ids"][topic], records, strict=True)
        )
        return WatchBatch(connection=self._connection, changes=changes, listing=True)

    def _changed(self, event: Mapping[str, Any]) -> WatchBatch:
        self._position = event["position"]
        changes = tuple(
            Change(topic=one["topic"], id=one["id"], record=one["record"])
            for one in event["changes"]
        )
        return WatchBatch(
            connection=self._connection, changes=changes, listing=bool(event["listing"])
        )

    def _heard(self) -> None:
        now = self._clock.now()
        since = self._connection.since if self._connection.state == LIVE else now
        self._heard_monotonic = self._clock.monotonic()
        self._attempt = 0
        self._connection = Connection(state=LIVE, since=since, heard=now)

    def _lost(self, words: str) -> WatchBatch:
        state = self._connection.state
        if state == LIVE:
            state, since = RECONNECTING, self._clock.now()
        else:
            since = self._connection.since
        self._connection = Connection(
            state=state, since=since, heard=self._connection.heard, words=words
        )
        self._age()
        return WatchBatch(connection=self._connection)

    def _age(self) -> bool:
        """Become stale when the time for it came; say whether that is new."""
        silent = self._clock.monotonic() - self._heard_monotonic
        if self._connection.state == STALE or silent < STALE_AFTER:
            return False
        self._connection = self._connection._replace(state=STALE, since=self._clock.now())
        return True

    async def _pause(self) -> AsyncGenerator[WatchBatch, None]:
        """Wait before the next attempt; yield when what is known becomes stale meanwhile."""
        end = self._clock.monotonic() + BACKOFF.delay(self._attempt, self._rng)
        self._attempt += 1
        stale_at = self._heard_monotonic + STALE_AFTER
        if self._connection.state != STALE and stale_at < end:
            await self._clock.sleep(max(0.0, stale_at - self._clock.monotonic()))
            if self._age():
                yield WatchBatch(connection=self._connection)
        await self._clock.sleep(max(0.0, end - self._clock.monotonic()))
