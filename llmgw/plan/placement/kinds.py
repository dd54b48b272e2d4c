"""The kinds of verdict in order: what is nearest to fitting comes first."""

from collections.abc import Iterable

from llmgw.plan.records import FITS, NEVER, NOT_NOW, NOT_UNLESS_EVICTED

MILDEST = (FITS, NOT_NOW, NOT_UNLESS_EVICTED, NEVER)


def mildest(kinds: Iterable[str]) -> str:
    """Return the kind that is nearest to fitting; of none, that nothing helps."""
    return min(kinds, key=MILDEST.index, default=NEVER)
