"""A control plane for the console: lists a recorded fleet, then says what a test tells it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.client.interface import (
    LIVE,
    RECONNECTING,
    STALE,
    Change,
    Connection,
    Decoded,
    LogBatch,
    Version,
    WatchBatch,
)
from llmgw.model.history import HOUR, NodeHistory
from llmgw.model.node import Sample
from tests.fakes.conditions import past
from tests.fakes.fleet_parts import NOW, RecordedFleet

ASKED = {"/traffic", "/traffic-history", "/requests", "/keys", "/key-use", "/usage/sums"}
"""Paths that are asked by the screens of traffic and keys."""
ONLY_AN_HOUR = "only the last hour is kept; for more, set prometheus.url"


class FakeFeed:
    """A `WatchingClient` without a network. It counts what it was asked."""

    def __init__(self, fleet: RecordedFleet, *, refuse: LlmgwError | None = None) -> None:
        self.fleet = fleet
        self.lists = 0
        self.open_watches = 0
        self.open_logs = 0
        self.closed = False
        self.gets: list[str] = []
        self.histories: list[tuple[str, int]] = []
        self.refuse_history: LlmgwError | None = None
        self.answer_histories = asyncio.Event()
        self.answer_histories.set()
        self.answers: dict[str, object] = {}
        """What a GET of one of `ASKED` answers."""
        self.refuse_gets: LlmgwError | None = None
        self.done: list[tuple[str, str, object]] = []
        """What was to be changed: method, path, body."""
        self.replies: dict[str, object] = {}
        self.refuse_changes: LlmgwError | None = None
        self.logs: dict[tuple[str, str | None], list[str]] = {}
        self.refuse_logs: LlmgwError | None = None
        self._refuse = refuse
        self._waiting = False
        self._connection = Connection(state=LIVE, since=NOW, heard=NOW)
        self._queue: asyncio.Queue[WatchBatch] = asyncio.Queue()
        self._log_queues: dict[tuple[str, str | None], asyncio.Queue[LogBatch]] = {}

    async def watch(self, topics: Sequence[str]) -> AsyncIterator[WatchBatch]:
        if self._refuse is not None:
            raise self._refuse
        self.lists += 1
        self.open_watches += 1
        try:
            yield self._listing(topics)
            while True:
                self._waiting = True
                batch = await self._queue.get()
                self._waiting = False
                yield batch
        finally:
            self._waiting = False
            self.open_watches -= 1

    @property
    def taken(self) -> bool:
        """Say whether the console took everything in that was said."""
        return self._queue.empty() and self._waiting

    async def follow_logs(
        self, node: str, source: str | None = None, lines: int = 100
    ) -> AsyncIterator[LogBatch]:
        if self.refuse_logs is not None:
            raise self.refuse_logs
        self.open_logs += 1
        queue = self._log_queues.setdefault((node, source), asyncio.Queue())
        try:
            yield LogBatch(tuple(self.logs.get((node, source), ())[-lines:]))
            while True:
                yield await queue.get()
        finally:
            self.open_logs -= 1

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Decoded:
        self.gets.append(path)
        if path in ASKED:
            if self.refuse_gets is not None:
                raise self.refuse_gets
            return built(self.answers.get(path, ()))
        node = path.split("/")[2]
        return {"lines": [], "sources": [s for n, s in self.logs if n == node and s is not None]}

    async def history(
        self, node: str, series: Sequence[str] = (), minutes: int = 60
    ) -> NodeHistory:
        self.histories.append((node, minutes))
        await self.answer_histories.wait()
        if self.refuse_history is not None:
            raise self.refuse_history
        sample = self.fleet.topics.get("samples", {}).get(node)
        told = past(sample if isinstance(sample, Sample) else None, minutes, NOW)
        return msgspec.structs.replace(told, problem=ONLY_AN_HOUR if minutes > HOUR else None)

    async def put(self, path: str, body: object, *, version: Version = None) -> Decoded:
        return self._do("PUT", path, body)

    async def post(self, path: str, body: object = None) -> Decoded:
        return self._do("POST", path, body)

    async def delete(self, path: str) -> Decoded:
        return self._do("DELETE", path, None)

    def _do(self, method: str, path: str, body: object) -> Decoded:
        """Note what is to be changed, and answer as a test said."""
        self.done.append((method, path, body))
        if self.refuse_changes is not None:
            raise self.refuse_changes
        return built(self.replies.get(path))

    async def close(self) -> None:
        self.closed = True

    def change(self, topic: str, id_: str, record: object | None) -> None:
        """Say that one record is now this, or gone."""
        self.changes({(topic, id_): record})

    def changes(self, records: Mapping[tuple[str, str], object | None]) -> None:
        """Say many changes in one batch."""
        changed = []
        for (topic, id_), record in records.items():
            if record is None:
                self.fleet.topics.get(topic, {}).pop(id_, None)
            else:
                self.fleet.add(topic, id_, record)
            changed.append(Change(topic, id_, built(record)))
        self._queue.put_nowait(WatchBatch(self._connection, tuple(changed)))

    def lose(self, *, heard: float = NOW, stale: bool = False) -> None:
        """Say that the control plane is away."""
        state = STALE if stale else RECONNECTING
        self._connection = Connection(state, NOW, heard, "nothing listens at http://127.0.0.1:7441")
        self._queue.put_nowait(WatchBatch(self._connection))

    def say_nonsense(self) -> None:
        """Say something that breaks whoever reads it."""
        self._queue.put_nowait(WatchBatch(self._connection, (None,)))  # type: ignore[arg-type]

    def come_back(self, *, listing: bool = False) -> None:
        """Say that it is there again."""
        self._connection = Connection(state=LIVE, since=NOW, heard=NOW)
        topics = tuple(self.fleet.topics)
        self._queue.put_nowait(self._listing(topics) if listing else WatchBatch(self._connection))

    def log(self, node: str, source: str | None, *lines: str, dropped: int = 0) -> None:
        """Say new lines of a log."""
        self.logs.setdefault((node, source), []).extend(lines)
        queue = self._log_queues.setdefault((node, source), asyncio.Queue())
        queue.put_nowait(LogBatch(lines, dropped))

    def _listing(self, topics: Sequence[str]) -> WatchBatch:
        changes = tuple(
            Change(topic, id_, built(record))
            for topic in topics
            for id_, record in self.fleet.topics.get(topic, {}).items()
        )
        return WatchBatch(self._connection, changes, listing=True)


def built(record: object | None) -> object | None:
    """Return a record as JSON would bring it."""
    return None if record is None else msgspec.json.decode(msgspec.json.encode(record))
