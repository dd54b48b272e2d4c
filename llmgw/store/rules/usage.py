"""How cumulative totals become what was used in an hour: their difference, each applied once.

Invariant: for each (gateway, boot, worker, key, model) the hours hold together exactly what its
last applied report says. A report is applied wholly or not at all.
"""

from llmgw.base.errors import Refused
from llmgw.model.keys import UsageOver, UsageReport, UsageTotals

HOUR = 3600.0
FIELDS = ("requests", "prompt_tokens", "completion_tokens", "cancelled", "estimated", "failed")
"""What is counted, in the order of every tuple of counts."""
BOOT_KEPT = 90 * 86400.0
"""How long a former boot of a gateway may still deliver from its journal."""
_MOST = 1 << 53
"""More than any worker counts, and still exact in every reader's JSON."""

Counts = tuple[int, ...]
NOTHING: Counts = (0,) * len(FIELDS)


def is_newer(report: UsageReport, last: int | None) -> bool:
    """Say whether a report comes after the last one applied of its worker (its sequence).

    Raises:
        Refused: its sequence is no number that counting reaches, or it says something twice.
    """
    if not 0 <= report.sequence <= _MOST:
        raise Refused(f"{_name(report)}: {report.sequence} is no sequence number")
    if last is not None and report.sequence <= last:
        return False
    seen: set[tuple[str, str]] = set()
    for totals in report.totals:
        if (totals.key, totals.model) in seen:
            raise Refused(f"{_name(report)}: says key {totals.key} and {totals.model} twice")
        seen.add((totals.key, totals.model))
    return True


def begun_anew(report: UsageReport, last: int | None) -> tuple[UsageOver, ...]:
    """Return the rows that count from zero with this report: what was said of them is forgotten.

    A gateway says it again until it knows that it was heard. Who has applied a report that said it
    has forgotten the row already, and what the row says since is new.
    """
    return tuple(one for one in report.over if last is not None and one.sequence > last)


def counts(report: UsageReport, totals: UsageTotals, before: Counts) -> Counts:
    """Return what totals say, when it can follow what they said before.

    Raises:
        Refused: one fell within the boot, or is beyond counting.
    """
    now = tuple(int(getattr(totals, name)) for name in FIELDS)
    for name, old, new in zip(FIELDS, before, now, strict=True):
        if new < old:
            raise Refused(
                f"{_name(report)}: {name} of key {totals.key} and {totals.model} "
                f"fell from {old} to {new}; totals never fall within a boot",
                hint="its journal is damaged or was restored; a restart of the gateway begins anew",
            )
        if new > _MOST:
            raise Refused(f"{_name(report)}: {name} is {new}, which nothing can count to")
    return now


def beyond(now: Counts, before: Counts) -> Counts:
    """Return what was used since."""
    return tuple(new - old for new, old in zip(now, before, strict=True))


def _name(report: UsageReport) -> str:
    return f"usage of gateway {report.gateway}, boot {report.boot}, worker {report.worker}"
