"""What is said where a node has too little of something that is counted: memory, cores."""

from collections.abc import Callable

from llmgw.plan.placement.room import Space
from llmgw.plan.records import NOT_NOW, NOT_UNLESS_EVICTED, Booking, Verdict
from llmgw.plan.words import counted, most_first, some

NAMED = 16
"""Holders that are named; what the others have is counted together."""


def of_unknown_use(rule: str, what: str, replica: str, space: Space) -> Verdict:
    """Return the refusal where nobody can say what a replica uses."""
    words = f"{space.node.id}: what {replica} uses of {what} is not known and counts as all"
    return Verdict(kind=NOT_NOW, rule=rule, words=words)


def too_little(
    rule: str,
    words: str,
    space: Space,
    *,
    short: int,
    held: Callable[[Booking], int | None],
    shown: Callable[[int], str],
) -> Verdict:
    """Return the refusal where others have it: waiting helps where enough of that leaves.

    Args:
        rule: of the filter.
        words: what there is and what is needed.
        space: the node.
        short: how much is missing.
        held: what a booking has of it.
        shown: an amount of it, with its unit.
    """
    has: dict[str, int] = {}
    for one in space.bookings:
        has[one.replica] = has.get(one.replica, 0) + (held(one) or 0)
    leaving = sum(amount for name, amount in has.items() if name in space.leaving)
    kind = NOT_NOW if leaving >= short else NOT_UNLESS_EVICTED
    holders = most_first(has)
    reasons = [
        f"{shown(has[name])} held by {name}"
        + (", which is stopping" if name in space.leaving else "")
        for name in holders[:NAMED]
    ]
    if rest := holders[NAMED:]:
        amount = shown(sum(has[name] for name in rest))
        reasons.append(f"{amount} held by {counted(len(rest), 'other')}")
    if reasons:
        words = f"{words}: {some(reasons, '; ')}"
    return Verdict(kind=kind, rule=rule, words=words, reasons=tuple(reasons))
