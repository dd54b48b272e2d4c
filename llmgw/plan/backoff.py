"""What failed starts do to the next one: wait on the same node, then go elsewhere (REC-4).

A model that failed once or twice on a node is started there again after a while: what a bad file
or a wrong argument does to one node it does to all, and elsewhere the weights may be missing.
After the third time the node is passed over for this model: it is taken again, each time after a
longer wait, where no other fits, none becomes free, and nobody gives way elsewhere. A replica that
served and then ended is started again at once; when that happens again and again, the waits grow in
the same way.

What others lose to a model that fails is bounded too. During its first two waits, 15 s in all, its
place is kept for it: nobody has to go twice for it. From the third failed start on its place is
free for anybody, and nobody gives way to it on that node until `PATIENCE` after its last failure
there; each further such failure on any node doubles that, up to `LONGEST`. While that is so of two
nodes, it holds for all: the fault is the model's, not a node's. A model that never starts costs a
lower priority its place once in ever longer spans, and one whose fault is over comes back by
itself; a change of its entry in the catalog forgives all at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from llmgw.base.units import show_seconds
from llmgw.plan.records import NOT_NOW, StartFailure, Verdict

FIRST = 5.0
"""Seconds to wait after the first failure; each further one doubles it."""
MOST = 300.0
ELSEWHERE_AFTER = 3
"""Failed starts on one node after which another one is taken."""
PATIENCE = 600.0
"""Seconds after the third failed start on a node for which nobody gives way to the model there."""
LONGEST = 3600.0
"""Seconds to which that grows at most."""
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
    spared: Mapping[str, Verdict]
    """Those of `passed_over` on which nobody gives way to it now."""
    asks_nobody: bool
    """Nobody gives way to it now, on no node: it fails wherever it is started."""
    patience: str
    """Why nobody gives way where that is so, in words; empty: they do."""


def delay(count: int) -> float:
    """Return the seconds between failure number `count` on a node and the next start there."""
    return min(MOST, FIRST * 2.0 ** min(count - 1, 16))


def wait_after(failure: StartFailure) -> float:
    """Return the seconds between a failure and the next start on its node."""
    counted = failure.count - failure.served_first
    return delay(counted) if counted else 0.0


def held_back(failures: Iterable[StartFailure], now: float) -> HeldBack:
    """Return what a model's failures mean at a moment (monotonic seconds)."""
    known = sorted(failures, key=lambda one: one.node)
    waiting: dict[str, Verdict] = {}
    passed_over: dict[str, Verdict] = {}
    resting: dict[str, Verdict] = {}
    for failure in known:
        over = now - failure.last >= wait_after(failure)
        if failure.count >= ELSEWHERE_AFTER:
            passed_over[failure.node] = _verdict(failure, over=over)
            if not over:
                resting[failure.node] = passed_over[failure.node]
        elif not over:
            waiting[failure.node] = _verdict(failure, over=over)
    span = _span(known)
    struck = [f for f in known if f.count >= ELSEWHERE_AFTER and now - f.last < span]
    return HeldBack(
        waiting=waiting,
        passed_over=passed_over,
        resting=resting,
        spared={one.node: passed_over[one.node] for one in struck},
        asks_nobody=len(struck) > 1,
        patience=_patience_words(struck, span) if struck else "",
    )


def _span(known: Sequence[StartFailure]) -> float:
    """Return for how many seconds nobody gives way where a model failed too often."""
    beyond = sum(max(0, one.count - ELSEWHERE_AFTER + 1) for one in known)
    return min(LONGEST, PATIENCE * 2.0 ** min(max(0, beyond - 1), 16))


def _patience_words(struck: Sequence[StartFailure], span: float) -> str:
    times = sum(one.count for one in struck)
    where = f" on {struck[0].node}" if len(struck) == 1 else ""
    after = f"until {show_seconds(span)} after the last of its {times} failed starts"
    return f"nobody gives way to it{where} {after}"


def happened(failure: StartFailure) -> str:
    """Return how often what happened on a node: `failed to start it 3 times`."""
    times = "once" if failure.count == 1 else f"{failure.count} times"
    return f"it ended there {times} by itself" if failure.served else f"failed to start it {times}"


def _verdict(failure: StartFailure, *, over: bool) -> Verdict:
    """Word it without what changes by itself: a reason that is kept must not count down."""
    what = happened(failure)
    then = f"waits {show_seconds(wait_after(failure))} before the next try"
    if over:
        then = "is taken again where no other node fits"
    return Verdict(
        kind=NOT_NOW, rule=RULE, words=f"{failure.node}: {what} ({failure.words}); {then}"
    )
