"""What was used, added up: by hour or day, key, model. Pure."""

from collections.abc import Iterable

from llmgw.base.errors import Unreadable
from llmgw.model.keys import UsageRow, UsageSum

HOUR, DAY = "hour", "day"
BY = (HOUR, DAY, "key", "model")
DAY_SECONDS = 86400.0
_COUNTS = ("requests", "prompt_tokens", "completion_tokens", "cancelled", "estimated", "failed")


def told_apart(by: str) -> tuple[str, ...]:
    """Return what a list with commas names, of `BY`; empty: everything is one sum.

    Raises:
        Unreadable: it names something else, or both hour and day.
    """
    names = tuple(name for name in (part.strip() for part in by.split(",")) if name)
    wrong = next((name for name in names if name not in BY), None)
    if wrong is not None:
        raise Unreadable(f"by: {wrong!r} is none of {', '.join(BY)}")
    if HOUR in names and DAY in names:
        raise Unreadable("by: hour and day exclude each other")
    return names


def summed(rows: Iterable[UsageRow], by: tuple[str, ...]) -> tuple[UsageSum, ...]:
    """Return the sums of rows that differ in nothing that is told apart, in order.

    A day is one of UTC.
    """
    sums: dict[tuple[float, str, str], dict[str, int]] = {}
    for row in rows:
        which = (
            _start(row.hour, by),
            row.key if "key" in by else "",
            row.model if "model" in by else "",
        )
        counts = sums.setdefault(which, dict.fromkeys(_COUNTS, 0))
        for name in _COUNTS:
            counts[name] += getattr(row, name)
    return tuple(
        UsageSum(
            start=start if HOUR in by or DAY in by else None,
            key=key if "key" in by else None,
            model=model if "model" in by else None,
            **sums[start, key, model],
        )
        for start, key, model in sorted(sums)
    )


def _start(hour: float, by: tuple[str, ...]) -> float:
    if HOUR in by:
        return hour
    return hour - hour % DAY_SECONDS if DAY in by else 0.0
