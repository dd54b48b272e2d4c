"""What plan after plan refuses as no waiting helps: a job for it ends and says so.

One plan alone may have met a node that had just left, or has not said yet what it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmgw.model.catalog import CatalogEntry
from llmgw.plan.records import NEVER, Desired, Plan, Refusal

ENOUGH = 2
"""Plans in a row."""


@dataclass(frozen=True, slots=True)
class Refused:
    """How often in a row a profile was refused by every node for good."""

    version: int
    """Of the catalog's entry that was refused: another one is judged anew."""
    plans: int


Never = Mapping[tuple[str, str], Refused]
"""By model and profile."""


def follow(before: Never, plan: Plan, desired: Desired) -> Never:
    """Return what is refused for good after one more plan, and was before it.

    Args:
        before: after the plan before.
        plan: the newest.
        desired: what it was made for.
    """
    versions = {entry.model.name: entry.version for entry in desired.models}
    found: dict[tuple[str, str], Refused] = {}
    for one in plan.refusals:
        version, key = versions.get(one.model), (one.model, one.profile)
        if version is None or any(each.verdict.kind != NEVER for each in one.candidates):
            continue
        last = before.get(key)
        again = last.plans if last is not None and last.version == version else 0
        found[key] = Refused(version, again + 1)
    return found


def for_good(
    refusals: Sequence[Refusal], never: Never, entry: CatalogEntry | None
) -> tuple[Refusal, ...]:
    """Return the refusals of a model as the catalog has it that no waiting ends.

    Args:
        refusals: of the newest plan.
        never: after that plan.
        entry: the catalog's; None: it has none.
    """
    if entry is None:
        return ()
    return tuple(
        one
        for one in refusals
        if one.model == entry.model.name
        and (known := never.get((one.model, one.profile))) is not None
        and known.plans >= ENOUGH
        and known.version == entry.version
    )
