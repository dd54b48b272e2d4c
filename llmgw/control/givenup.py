"""Replicas that are given up: out of the routes, and then told to stop (REC-5)."""

from collections.abc import Collection
from dataclasses import dataclass, field

from llmgw.base.clock import Clock
from llmgw.plan.records import Drain

SENT = 0.5
"""Seconds after which every gateway was sent the routes without a replica: the feed sends what
changed each 0.25 s."""


PLACE_KEPT = 60.0
"""Seconds after the end of an outdated replica in which no equal gets the place that it left to its
successor: the next plans start it there."""

Shard = tuple[str, int]
"""Node and rank."""
Profile = tuple[str, str]
"""Model and profile."""


@dataclass(slots=True)
class _Given:
    """Times: monotonic seconds."""

    words: str
    since: float
    told: dict[Shard, float] = field(default_factory=dict)
    """When nodes were last told to stop its shards, as far as that may still be carried out."""
    ordered: bool = False
    """They were told at least once."""
    successor: Profile | None = None
    """Of what is to have its place; None: of nobody, or it was started already."""


class GivenUp:
    """What this control plane gave up and is not gone yet; the next one decides anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._given: dict[str, _Given] = {}
        self._left: list[tuple[Profile, float]] = []
        """Whose successor has not begun, of those that are gone, and when they went; in order."""

    def add(self, replica: str, words: str, successor: Profile | None = None) -> bool:
        """Give a replica up; return whether that is new.

        Args:
            replica: its id.
            words: why.
            successor: model and profile of what is to have its place; None: whatever comes first.
        """
        if replica in self._given:
            return False
        self._given[replica] = _Given(words, self._clock.monotonic(), successor=successor)
        return True

    def told(self, replica: str, shards: Collection[Shard]) -> bool:
        """Note that nodes of a replica that is given up are told to stop shards of it.

        Returns whether any is told for the first time.
        """
        given = self._given[replica]
        first, given.ordered = not given.ordered, True
        given.told |= dict.fromkeys(shards, self._clock.monotonic())
        return first

    def returned(self, node: str) -> None:
        """Count what a node was told as lost: it came back and says what it still runs."""
        for one in self._given.values():
            for shard in [shard for shard in one.told if shard[0] == node]:
                del one.told[shard]

    def ordered(self, replica: str) -> bool:
        """Say whether its nodes were ever told to stop it: its shards may be gone then."""
        given = self._given.get(replica)
        return given is not None and given.ordered

    def gone(self, replica: str) -> None:
        """Forget a replica of which nothing is left."""
        given = self._given.pop(replica, None)
        if given is not None and given.successor is not None:
            self._left.append((given.successor, self._clock.monotonic()))

    def goes_on(self, replica: str) -> None:
        """Forget that a replica was given up."""
        self._given.pop(replica, None)

    def begins(self, profile: Profile) -> None:
        """Note that a replica is started: it is a successor where one is awaited."""
        for at, (successor, _) in enumerate(self._left):
            if successor == profile:
                del self._left[at]
                return
        for one in self._given.values():
            if one.successor == profile:
                one.successor = None
                return

    def successors(self) -> tuple[Profile, ...]:
        """Return model and profile of each successor that has not begun."""
        now = self._clock.monotonic()
        self._left = [one for one in self._left if now - one[1] < PLACE_KEPT]
        goes = (one.successor for one in self._given.values() if one.successor is not None)
        return tuple(sorted((*goes, *(successor for successor, _ in self._left))))

    def words(self, replica: str) -> str | None:
        """Return why a replica is given up; None when it is not."""
        given = self._given.get(replica)
        return given.words if given is not None else None

    def all(self, settled_until: float) -> tuple[Drain, ...]:
        """Return them as decisions are made from them, by id.

        Args:
            settled_until: see `Loads.settled_until`.
        """
        now = self._clock.monotonic()
        return tuple(
            Drain(
                replica=replica,
                words=one.words,
                lasts=now - one.since,
                settled=settled_until >= one.since + SENT,
                told=bool(one.told),
                told_before=one.ordered,
                told_shards=tuple(sorted(one.told)),
            )
            for replica, one in sorted(self._given.items())
        )

    def expire(self, grace: float) -> None:
        """Count what was told so many seconds ago as lost: it is told again."""
        now = self._clock.monotonic()
        for one in self._given.values():
            for shard in [shard for shard, at in one.told.items() if now - at >= grace]:
                del one.told[shard]
