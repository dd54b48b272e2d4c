"""The kinds of verdict in order: what is nearest to fitting comes first."""

from collections.abc import Iterable

from llmgw.plan.records import FITS, NEVER, NOT_NOW, NOT_UNLESS_EVICTED, Verdict

MILDEST = (FITS, NOT_NOW, NOT_UNLESS_EVICTED, NEVER)

WISH = "wish"
"""The rule that turns a node away which an operator takes out."""


def passes(verdict: Verdict) -> bool:
    """Say whether what turns a node away ends with time, and no person has to end it."""
    return verdict.kind == NOT_NOW and verdict.rule != WISH


def mildest(kinds: Iterable[str]) -> str:
    """Return the kind that is nearest to fitting; of none, that nothing helps."""
    return min(kinds, key=MILDEST.index, default=NEVER)
