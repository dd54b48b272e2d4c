"""The choice of an engine: least in flight, ties at random, last resorts last."""

from collections.abc import Callable, Container, Sequence
from typing import Protocol, TypeVar

from llmgw.gateway.route.health import Health


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


E = TypeVar("E", bound=Choosable)


def open_endpoints(endpoints: Sequence[E], tried: Container[E], now: float) -> list[E]:
    """Return those that a request may go to now.

    Args:
        endpoints: all of the route.
        tried: those that this request has been to.
        now: monotonic seconds.
    """
    usable = [one for one in endpoints if one.health.usable(now) and one not in tried]
    return [one for one in usable if not one.last_resort] or usable


def least_loaded(
    candidates: Sequence[E], load: Callable[[E], int], below: Callable[[int], int]
) -> E | None:
    """Return the one with the least in flight; None when there are none.

    Args:
        candidates: those that a request may go to.
        load: requests in flight there, over all workers.
        below: a random integer from 0 to below its argument; it breaks ties.
    """
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    loads = [load(one) for one in candidates]
    least = min(loads)
    best = [one for one, is_now in zip(candidates, loads, strict=True) if is_now == least]
    return best[0] if len(best) == 1 else best[below(len(best))]


def soonest(endpoints: Sequence[Choosable], now: float) -> float:
    """Return in how many seconds the first of them may be tried again."""
    return max(0.0, min((one.health.out_until for one in endpoints), default=now) - now)
