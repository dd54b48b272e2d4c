"""Who of those that wait for one model goes next: fair between keys by tokens, and by priority.

Keys share by what they use, not by how often they ask: of those that wait the one goes next whose
key has been charged the fewest tokens. A key that comes anew begins where the others are, so that
nobody saves up; one whose request is let go is charged what its requests use on average, and what
the request really used is put right as it is known. (Start-time fair queueing, Goyal and others
1996, with tokens for bits.)

A higher priority goes first. So that a lower one does not wait for ever, its oldest request rises
by one each `AGE` seconds. Where more comes of a higher priority than is served, all that wait there
rise as well, and up to its deadline a lower one would never pass them: so it gets one place besides
when none of it went for `AGE` seconds for each step that it is below.
"""

from collections.abc import Iterator
from math import inf
from typing import Generic, TypeVar

R = TypeVar("R")

AGE = 10.0
"""Seconds of waiting that count as much as one step of priority."""
UNKNOWN_TOKENS = 256.0
"""What a request of a key is taken for that has finished none yet."""
_NEWEST = 0.2
"""The weight of the newest request in the average of its key."""
_IDLE_MOST = 1024
"""Keys that nothing waits or runs of and that are remembered all the same."""


class Share:
    """One key's part of one model."""

    __slots__ = ("charged", "key", "mean", "running", "waiting")

    def __init__(self, key: str, charged: float) -> None:
        self.key = key
        self.charged = charged
        """Tokens, from where the others were when it came."""
        self.mean = UNKNOWN_TOKENS
        self.running = 0
        self.waiting = 0


class Place(Generic[R]):
    """One request that waits."""

    __slots__ = ("level", "request", "share", "since")

    def __init__(self, request: R, share: Share, level: int, since: float) -> None:
        self.request = request
        self.share = share
        self.level = level
        self.since = since


class FairQueue(Generic[R]):
    """The requests that wait for one model, and what their keys were charged."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[str, dict[Place[R], None]]] = {}
        """By priority and key, each in the order in which they came."""
        self._went: dict[int, float] = {}
        """When one of a priority went last, of those that wait; monotonic seconds."""
        self._shares: dict[str, Share] = {}
        self._reached = 0.0
        """What the key was charged that was let go last: where a new one begins."""
        self._length = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._length

    def put(self, request: R, key: str, level: int, now: float) -> Place[R]:
        """Let a request wait.

        Args:
            request: what `take` returns.
            key: whose it is.
            level: its priority.
            now: monotonic seconds.
        """
        share = self._share(key)
        if not share.waiting:
            share.charged = max(share.charged, self._reached)
        place = Place(request, share, level, now)
        self._lines.setdefault(level, {}).setdefault(key, {})[place] = None
        share.waiting += 1
        self._length += 1
        return place

    def drop(self, place: Place[R]) -> None:
        """Forget a request that waits no longer; one that does not is no error."""
        lines = self._lines.get(place.level, {})
        line = lines.get(place.share.key)
        if line is None or place not in line:
            return
        del line[place]
        if not line:
            del lines[place.share.key]
            if not lines:
                del self._lines[place.level]
                self._went.pop(place.level, None)
        place.share.waiting -= 1
        self._length -= 1

    def go(self, place: Place[R], now: float) -> None:
        """Let a request go: the one that `next` returned."""
        self._went[place.level] = now
        self.drop(place)

    def next(self, now: float) -> Place[R] | None:
        """Return who goes next; it still waits. None: nobody waits."""
        best: tuple[float, float, float] | None = None
        found: Place[R] | None = None
        for level, lines in self._lines.items():
            heads = [next(iter(line)) for line in lines.values()]
            risen = self._rank(level, min(head.since for head in heads), now)
            for head in heads:
                order = (-risen, head.share.charged, head.since)
                if best is None or order < best:
                    best, found = order, head
        return found

    def order(self, now: float) -> Iterator[R]:
        """Yield all requests as they would go, if each used what its key's do on average."""
        ranks = []
        for level, lines in self._lines.items():
            oldest = min(next(iter(line)).since for line in lines.values())
            risen = self._rank(level, oldest, now)
            for line in lines.values():
                for behind, place in enumerate(line):
                    then = place.share.charged + behind * place.share.mean
                    ranks.append((-risen, then, place.since, place))
        ranks.sort(key=lambda rank: rank[:3])
        for *_, place in ranks:
            yield place.request

    def all(self) -> list[Place[R]]:
        """Return all that wait, in the order in which they came."""
        places = [
            place for lines in self._lines.values() for line in lines.values() for place in line
        ]
        return sorted(places, key=lambda place: place.since)

    def began(self, key: str) -> Share:
        """Note that a request of a key is let go, having waited or not; return what pays for it."""
        share = self._share(key)
        if self._length and not share.waiting and not share.running:
            share.charged = max(share.charged, self._reached)
        self._reached = max(self._reached, share.charged)
        return share

    def _rank(self, level: int, oldest: float, now: float) -> float:
        """Return before whom a priority's requests go; the higher the sooner."""
        unserved = now - max(oldest, self._went.get(level, oldest))
        below = max(self._lines) - level
        if below and unserved >= AGE * below:
            return inf
        return level + max(0.0, now - oldest) // AGE

    def _share(self, key: str) -> Share:
        share = self._shares.get(key)
        if share is None:
            if len(self._shares) >= _IDLE_MOST:
                self._forget_idle()
            share = self._shares[key] = Share(key, self._reached)
        return share

    def _forget_idle(self) -> None:
        busy = {key: one for key, one in self._shares.items() if one.running or one.waiting}
        self._shares = busy


class Served:
    """What one request that was let go costs its key's share; closed exactly once."""

    __slots__ = ("_counted", "_share", "_used")

    def __init__(self, share: Share) -> None:
        self._share = share
        self._counted = share.mean
        self._used = 0
        share.charged += share.mean
        share.running += 1

    def prompt(self, tokens: int) -> None:
        """Charge the prompt."""
        self.completion(tokens)

    def completion(self, tokens: int) -> None:
        """Charge what was produced, as far as it is more than what was charged at first."""
        self._used += tokens
        if self._used > self._counted:
            self._share.charged += self._used - self._counted
            self._counted = self._used

    def closed(self) -> None:
        """Put right what was charged at first."""
        share = self._share
        share.charged += self._used - self._counted
        share.mean += _NEWEST * (self._used - share.mean)
        share.running -= 1
