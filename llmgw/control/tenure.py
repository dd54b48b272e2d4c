"""What begins and ends with leadership: what is read from the store, and the feed's epoch."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from llmgw.base.ids import crockford
from llmgw.control.events import Events
from llmgw.control.feed import Feed
from llmgw.control.leader import Leader
from llmgw.model.events import WARNING
from llmgw.model.link import Goodbye

Read = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Readings:
    """What a control plane reads from the store, in order."""

    always: tuple[Read, ...]
    """By a leader as it begins, and by a standby each time it looks."""
    now_and_then: tuple[Read, ...]
    """By a leader as it begins, and by a standby less often."""
    leading: tuple[Read, ...]
    """By a leader alone."""


class Tenure:
    """One control plane as leader and as standby, in turns.

    Args:
        server_id: this control plane's id.
        leader: the lease.
        feed: renewed with each change.
        events: where each change is told.
        rng: makes epochs.
        readings: what the store is asked for.
        forget: drops what is known, as a leader begins: what counts is heard anew.
        turn_away: ends the streams of whoever is connected, with where to go.
    """

    def __init__(
        self,
        server_id: str,
        leader: Leader,
        feed: Feed,
        events: Events,
        rng: random.Random,
        *,
        readings: Readings,
        forget: Callable[[], None],
        turn_away: Callable[[Goodbye], None],
    ) -> None:
        self._server = server_id
        self._leader = leader
        self._feed = feed
        self._events = events
        self._rng = rng
        self._readings = readings
        self._forget = forget
        self._turn_away = turn_away
        self.opened = False
        """Whether this control plane has led or stood by before."""
        leader.on_won(self._won)
        leader.on_lost(self._lost)

    async def follow(self, now_and_then: bool) -> None:
        """Read what a standby answers from, with what is read less often or without."""
        for read in self._readings.always:
            await read()
        if now_and_then:
            for read in self._readings.now_and_then:
                await read()

    async def _won(self) -> None:
        """Begin as a leader: know what the store says and nothing else (invariant 2)."""
        if self.opened:
            self._renew()
        self._forget()
        found = self._readings
        for read in (*found.always, *found.leading, *found.now_and_then):
            await read()
        words = f"{self._server} leads under term {self._leader.term}"
        self._events.add("server", self._server, words)

    def _lost(self, why: str) -> None:
        """Stand by: whoever is connected here is told to find the leader."""
        self._turn_away(self._leader.goodbye())
        self._renew()
        words = f"{self._server} does not lead any more: {why}"
        self._events.add("server", self._server, words, severity=WARNING)

    def _renew(self) -> None:
        self._feed.renew(crockford(self._rng, 12))
