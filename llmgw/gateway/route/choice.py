"""The choice of a replica: least load, less what it holds of the prompt; ties at random."""

from collections.abc import Callable, Container, Sequence
from typing import Protocol, TypeVar

from llmgw.gateway.route.health import Health
from llmgw.gateway.route.prefix import LEVELS, PrefixTable

ONLY = "only"
"""No other replica could serve."""
SESSION = "session"
"""It served the session before."""
PREFIX = "prefix"
"""It holds some of the prompt."""
BUSY = "busy"
"""Another one holds some of the prompt, and has too much to do."""
UNKNOWN = "unknown"
"""None is known to hold any of the prompt."""
SHORT = "short"
"""There is no prompt of a block or more."""
REASONS = (ONLY, SESSION, PREFIX, BUSY, UNKNOWN, SHORT)

WORTH = 1.0
"""Requests more than another one that a replica may have which holds all of a prompt …"""
WORTH_OF_MEAN = 0.25
"""… and this share of what replicas have on average: with much to do a little more is nothing."""
WHOLE_WORTH = 8
"""Blocks that have to be held for all of that; to compute fewer again costs little."""


class Choosable(Protocol):
    """What a choice looks at."""

    @property
    def health(self) -> Health:
        """Return how its engine has been."""
        ...

    @property
    def last_resort(self) -> bool:
        """Say whether it is used only where nothing else serves."""
        ...


class Marked(Protocol):
    """What a choice by prompt looks at beside."""

    @property
    def mark(self) -> int:
        """Return its bit in the table of prefixes."""
        ...

    @property
    def strained(self) -> bool:
        """Say whether what it holds is no reason to send it more."""
        ...


E = TypeVar("E", bound=Choosable)
M = TypeVar("M", bound=Marked)


class Prompt:
    """What of a request tells which replica it goes to best.

    Args:
        hashes: of the prompt's leading parts; empty for a short one.
        session: the hash of the session that the client named; None: it named none.
    """

    __slots__ = ("hashes", "session")

    def __init__(self, hashes: Sequence[int], session: int | None = None) -> None:
        self.hashes = hashes
        self.session = session


def open_endpoints(endpoints: Sequence[E], tried: Container[E], now: float) -> list[E]:
    """Return those that a request may go to now.

    Where nothing else is left it may go to one that a probe is on its way to: the next reply tells
    as much as that one, and to refuse everybody meanwhile helps nobody.

    Args:
        endpoints: all of the route.
        tried: those that this request has been to.
        now: monotonic seconds.
    """
    usable = [
        one
        for one in endpoints
        if (not one.health.failures or one.health.usable(now)) and one not in tried
    ]
    if not usable:
        usable = [one for one in endpoints if one.health.is_back(now) and one not in tried]
    return [one for one in usable if not one.last_resort] or usable


def choose(
    candidates: Sequence[M],
    loads: Sequence[float],
    prompt: Prompt,
    table: PrefixTable,
    below: Callable[[int], int],
) -> tuple[M, str]:
    """Return the replica that a request goes to, and the reason.

    The one with the least load, where what is held of the prompt counts as so much less: a replica
    that holds nothing of it is never passed over for one that has more to do than that is worth.

    Args:
        candidates: those that the request may go to; at least one.
        loads: what each of them has to do, in requests.
        prompt: the request's.
        table: who holds what.
        below: a random integer from 0 to below its argument; it breaks ties.
    """
    if len(candidates) == 1:
        return candidates[0], ONLY
    if not prompt.hashes and prompt.session is None:
        return candidates[_least(loads, below)], SHORT
    among = 0
    for one in candidates:
        if not one.strained:
            among |= one.mark
    known = table.holders((prompt.session,), among) if prompt.session is not None else ()
    held = table.holders(prompt.hashes, among) if prompt.hashes else ()
    if not known and not held:
        return candidates[_least(loads, below)], UNKNOWN
    worth = WORTH + WORTH_OF_MEAN * sum(loads) / len(loads)
    session = known[0][0] if known else 0
    shares = [(marks, _share(level, len(prompt.hashes))) for marks, level in held]
    gains = _gains(candidates, session, shares)
    chosen = _least([load - worth * gain for load, gain in zip(loads, gains, strict=True)], below)
    one = candidates[chosen]
    if one.mark & session:
        return one, SESSION
    return one, PREFIX if gains[chosen] else BUSY


def _gains(
    candidates: Sequence[Marked], session: int, shares: Sequence[tuple[int, float]]
) -> list[float]:
    """Return between 0 and 1 what each replica holds; no two of `shares` have a mark in common."""
    gains = []
    for one in candidates:
        mark = one.mark
        gain = 1.0 if mark & session else 0.0
        if not gain:
            for marks, share in shares:
                if marks & mark:
                    gain = share
                    break
        gains.append(gain)
    return gains


def _share(level: int, levels: int) -> float:
    """Return what it is worth to hold so many of a prompt's leading parts, between 0 and 1."""
    blocks = LEVELS[level - 1]
    return blocks / LEVELS[levels - 1] * min(1.0, blocks / WHOLE_WORTH)


def _least(values: Sequence[float], below: Callable[[int], int]) -> int:
    """Return the place of the least value; among equal ones at random."""
    least = min(values)
    best = [place for place, value in enumerate(values) if value == least]
    return best[0] if len(best) == 1 else best[below(len(best))]


def soonest(endpoints: Sequence[Choosable], now: float) -> float:
    """Return in how many seconds the first of them may be tried again."""
    return max(0.0, min((one.health.out_until for one in endpoints), default=now) - now)
