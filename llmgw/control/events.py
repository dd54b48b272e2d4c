"""What happened, for people: kept in memory for the feed, written to the store behind."""

from collections import OrderedDict
from collections.abc import Sequence

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.control.behind import Behind
from llmgw.control.feed import Feed
from llmgw.model.events import INFO, PROBLEM, WARNING, Event
from llmgw.model.feed import EVENTS
from llmgw.store.interface import Store

logger = log.get(__name__)

KEPT = 1000
"""Events in memory and in the topic `events`; older ones are in the store."""


class Events:
    """The newest events, and the way into the store for each of them.

    `add` neither blocks nor fails: what happened must not depend on the store. `write_forever`
    carries events there.
    """

    def __init__(self, store: Store, clock: Clock, feed: Feed) -> None:
        self._store = store
        self._clock = clock
        self._feed = feed
        self._kept: OrderedDict[str, Event] = OrderedDict()
        self._last = 0
        self._behind: Behind[Event] = Behind("events", self._put, clock)
        self.write = self._behind.write
        self.write_forever = self._behind.write_forever
        feed.serve(EVENTS, lambda: tuple(self._kept), self._kept.get)

    @property
    def dropped(self) -> int:
        """Return how many never reached the store."""
        return self._behind.dropped

    async def load(self) -> None:
        """Read the last day's events from the store."""
        for event in await self._store.events(since=self._clock.now() - 86_400, limit=KEPT):
            self._keep(event)
            if event.id.isdecimal():
                self._last = max(self._last, int(event.id))

    def add(self, kind: str, subject: str, words: str, *, severity: str = INFO) -> Event:
        """Record that something happened."""
        self._last = max(self._last + 1, int(self._clock.now() * 1_000_000))
        event = Event(
            id=f"{self._last:017d}",
            at=self._clock.now(),
            severity=severity,
            kind=kind,
            subject=subject,
            words=words,
        )
        speak = {WARNING: logger.warning, PROBLEM: logger.error}.get(severity, logger.info)
        speak(words, kind=kind, subject=subject)
        self._keep(event)
        self._behind.add(event.id, event)
        return event

    def recent(self, since: float = 0.0) -> tuple[Event, ...]:
        """Return the events in memory from a time on, oldest first."""
        return tuple(event for event in self._kept.values() if event.at >= since)

    def told(self, subject: str, words: str) -> bool:
        """Say whether that is among the events in memory."""
        return any(one.subject == subject and one.words == words for one in self._kept.values())

    async def _put(self, events: Sequence[Event]) -> None:
        for event in events:
            await self._store.add_event(event)

    def _keep(self, event: Event) -> None:
        self._kept[event.id] = event
        self._feed.mark(EVENTS, event.id)
        if len(self._kept) > KEPT:
            gone, _ = self._kept.popitem(last=False)
            self._feed.mark(EVENTS, gone)
