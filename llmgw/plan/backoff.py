"""What failed starts do to the next one: wait on the same node, then go elsewhere (REC-4).

A model that failed once or twice on a node is started there again after a while: what a bad file
or a wrong argument does to one node it does to all, and elsewhere the weights may be missing.
After the third time the node is passed over for this model until its own wait is over. A replica
that served and then ended is started again at once; when that happens again and again, the waits
grow in the same way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmgw.base.units import show_seconds
from llmgw.plan.records import NOT_NOW, StartFailure, Verdict

FIRST = 5.0
"""Seconds to wait after the first failure; each further one doubles it."""
MOST = 300.0
ELSEWHERE_AFTER = 3
"""Failed starts on one node after which another one is taken."""
RULE = "failures"


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The nodes on which a model failed to start, by what follows from it."""

    waiting: Mapping[str, Verdict]
    """Failed less than three times, and the wait is not over: whoever is placed there waits."""
    passed_over: Mapping[str, Verdict]
    """Failed three times or more: another node is taken where there is one."""
    resting: Mapping[str, Verdict]
    """Those of `passed_over` whose wait is not over."""


def delay(count: int) -> float:
    """Return the seconds between failure number `count` on a node and the next start there."""
    return min(MOST, FIRST * 2.0 ** min(count - 1, 16))


def wait_after(failure: StartFailure) -> float:
    """Return the seconds between a failure and the next start on its node."""
    counted = failure.count - failure.served_first
    return delay(counted) if counted else 0.0


def held_back(failures: Iterable[StartFailure], now: float) -> HeldBack:
    """Return what a model's failures mean at a moment (monotonic seconds)."""
    waiting: dict[str, Verdict] = {}
    passed_over: dict[str, Verdict] = {}
    resting: dict[str, Verdict] = {}
    for failure in failures:
        over = now - failure.last >= wait_after(failure)
        if failure.count >= ELSEWHERE_AFTER:
            passed_over[failure.node] = _verdict(failure)
            if not over:
                resting[failure.node] = passed_over[failure.node]
        elif not over:
            waiting[failure.node] = _verdict(failure)
    return HeldBack(waiting=waiting, passed_over=passed_over, resting=resting)


def _verdict(failure: StartFailure) -> Verdict:
    """Word it without what changes by itself: a reason that is kept must not count down."""
    times = "once" if failure.count == 1 else f"{failure.count} times"
    what = f"failed to start it {times}"
    if failure.served:
        what = f"it ended there {times} by itself"
    words = (
        f"{failure.node}: {what} ({failure.words}); "
        f"waits {show_seconds(wait_after(failure))} before the next try"
    )
    return Verdict(kind=NOT_NOW, rule=RULE, words=words)
