"""What a replica has to do: what this gateway sent it, what others did, how long it is back."""

from collections.abc import Iterable
from statistics import median

PEAK = 10.0
"""Seconds by which an engine's figures may be older than they are said to be.

What this gateway has there changes faster. So what an engine says counts as others' only where it
is more than this gateway has had there in a time that is sure to hold the moment it was counted.
"""
CACHE_FULL = 0.95
"""Share of a KV cache from which on an engine gives up what it holds of earlier prompts."""
SLOW_START = 20.0
"""Seconds in which a replica that is new, or is back, comes to its full share of requests."""
LEAST_SHARE = 0.1


class Load:
    """One replica's, as one worker sees it. Times: monotonic seconds."""

    __slots__ = (
        "_before",
        "_now",
        "_others",
        "_rotated",
        "_until",
        "_warm_at",
        "assumed",
        "strained",
    )

    def __init__(self) -> None:
        self._others = 0
        self._until = float("-inf")
        self._now = 0
        self._before = 0
        self._rotated = 0.0
        self._warm_at = float("-inf")
        self.assumed = 0.0
        """Requests of others that are taken for there, said or not."""
        self.strained = False
        """Its engine says that requests wait in it, or that its cache is full."""

    def seen(self, own: int, now: float) -> None:
        """Note what this gateway has there; called about once a second."""
        if now - self._rotated >= PEAK:
            self._before, self._now, self._rotated = self._now, 0, now
        self._now = max(self._now, own)

    def said(
        self,
        running: int | None,
        waiting: int | None,
        cache_used: float | None,
        until: float,
    ) -> None:
        """Take what the engine says; None: it does not say.

        Args:
            running: requests that it serves.
            waiting: requests that wait in it.
            cache_used: share of its KV cache that requests hold.
            until: when this says nothing any more.
        """
        if running is not None or waiting is not None:
            there = (running or 0) + (waiting or 0)
            self._others = max(0, there - max(self._now, self._before))
            self._until = until
        self.strained = bool(waiting) or (cache_used or 0.0) >= CACHE_FULL

    def others(self, now: float) -> int | None:
        """Return what others have there; None when the engine does not say."""
        if now >= self._until:
            self.strained = False
            return None
        return self._others

    def starts(self, now: float) -> None:
        """Note that it is there from now on: it gets more and more requests for a while."""
        self._warm_at = now + SLOW_START

    def total(self, own: int, now: float) -> float:
        """Return what it has to do, in requests, where `own` are this gateway's."""
        total = own + self.assumed
        if now < self._warm_at:
            share = max(LEAST_SHARE, 1 - (self._warm_at - now) / SLOW_START)
            return (total + 1) / share - 1
        return total


def assume(loads: Iterable[Load], now: float) -> None:
    """Settle what is taken for there at each replica of one model.

    One whose engine says nothing, or nothing new, has as much as its peers have in the middle: it
    can't win by silence.
    """
    told = [(load, load.others(now)) for load in loads]
    known = [others for _, others in told if others is not None]
    middle = float(median(known)) if known else 0.0
    for load, others in told:
        load.assumed = middle if others is None else float(others)
