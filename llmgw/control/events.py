"""What happened, for people: kept in memory for the feed, written to the store behind."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.control.behind import Behind
from llmgw.control.feed import Feed
from llmgw.control.writing import EVENTS as WRITTEN
from llmgw.control.writing import Writing
from llmgw.model.bounds import shortened
from llmgw.model.events import INFO, PROBLEM, WARNING, Event
from llmgw.model.feed import EVENTS
from llmgw.store.interface import Store

logger = log.get(__name__)

KEPT = 1000
"""Events in memory and in the topic `events`; older ones are in the store."""

AT_ONCE = 200
"""Events of one machine that are told at once; one that causes more goes untold for a while."""
ONE_EACH = 10.0
"""Seconds in which it may cause one more, so that it fills neither memory nor disk."""

_OF_MACHINES = frozenset({"node", "gateway"})
"""Kinds of which the subject is the machine that causes them."""


@dataclass(slots=True)
class _Allowance:
    """How many events a machine may still cause. Monotonic seconds."""

    left: float
    at: float
    untold: int = 0
    """How many were not told since it caused too many."""

    def taken(self, now: float) -> bool:
        """Take one; say whether there was one. Once there was none, half have to come back."""
        self.left = min(AT_ONCE, self.left + (now - self.at) / ONE_EACH)
        self.at = now
        if self.left < (AT_ONCE / 2 if self.untold else 1):
            self.untold += 1
            return False
        self.left -= 1
        return True


class Events:
    """The newest events, and the way into the store for each of them.

    `add` neither blocks nor fails: what happened must not depend on the store. `write_forever`
    carries events there.
    """

    def __init__(self, store: Store, clock: Clock, feed: Feed, writing: Writing) -> None:
        self._store = store
        self._clock = clock
        self._feed = feed
        self._kept: OrderedDict[str, Event] = OrderedDict()
        self._allowances: dict[str, _Allowance] = {}
        """By machine: as many as have certificates."""
        self._last = 0
        self._behind: Behind[Event] = Behind(WRITTEN, self._put, clock, writing)
        self.write = self._behind.write
        self.write_forever = self._behind.write_forever
        feed.serve(EVENTS, lambda: tuple(self._kept), self._kept.get)

    @property
    def dropped(self) -> int:
        """Return how many never reached the store."""
        return self._behind.dropped

    async def load(self) -> None:
        """Read the last day's events from the store, and keep those on their way there."""
        stored = await self._store.events(since=self._clock.now() - 86_400, limit=KEPT)
        events = {event.id: event for event in (*stored, *self._behind.waiting())}
        for known in [one for one in self._kept if one not in events]:
            del self._kept[known]
            self._feed.mark(EVENTS, known)
        for event in events.values():
            if event.id not in self._kept:
                self._keep(event)
                if event.id.isdecimal():
                    self._last = max(self._last, int(event.id))

    def add(
        self,
        kind: str,
        subject: str,
        words: str,
        *,
        severity: str = INFO,
        source: str | None = None,
    ) -> None:
        """Record that something happened.

        Args:
            kind: what sort.
            subject: what it is about.
            words: what happened; cut when they are very long.
            severity: how bad it is. A node's own problem is always told.
            source: the machine that caused it by what it said; None: the subject of a node's or a
                gateway's event, nobody of any other.
        """
        machine = source or (subject if kind in _OF_MACHINES else None)
        always = source is None and severity == PROBLEM
        if machine is None or always or self._allowed(machine):
            self._tell(kind, subject, shortened(words), severity)

    def _allowed(self, machine: str) -> bool:
        now = self._clock.monotonic()
        one = self._allowances.setdefault(machine, _Allowance(AT_ONCE, now))
        untold = one.untold
        if not one.taken(now):
            if not untold:
                words = f"{machine} causes too many events: further ones are not told for a while"
                self._tell("node", machine, words, WARNING)
            return False
        if untold:
            one.untold = 0
            words = f"{machine}: {untold} events were not told"
            self._tell("node", machine, words, WARNING)
        return True

    def _tell(self, kind: str, subject: str, words: str, severity: str) -> None:
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

    def recent(self, since: float = 0.0) -> tuple[Event, ...]:
        """Return the events in memory from a time on, oldest first."""
        return tuple(event for event in self._kept.values() if event.at >= since)

    async def since(self, since: float) -> tuple[Event, ...]:
        """Return the events from a time on, oldest first: from the store where memory ends.

        What does not lie in the store yet is among them, also when the store can't be written.

        Raises:
            Unreachable: the store can't be read.
        """
        kept = self.recent(since)
        if len(kept) < len(self._kept):
            return kept
        found = {event.id: event for event in (*await self._store.events(since=since), *kept)}
        return tuple(sorted(found.values(), key=lambda event: (event.at, event.id)))

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
