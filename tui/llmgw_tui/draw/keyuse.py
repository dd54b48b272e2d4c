"""What a key used over time: the last day by the hour, the last two weeks by the day."""

from collections.abc import Sequence
from datetime import UTC
from shlex import quote
from typing import NamedTuple

from llmgw.base.units import show_moment
from llmgw.model.keys import UsageSum
from llmgw_tui.draw.measures import short
from llmgw_tui.draw.seen import When
from llmgw_tui.draw.text import Piece, Pieces, fit, said

HOUR, DAY = 3600.0, 86400.0
HOURS, DAYS = 24, 14
_LABEL, _COUNT, _LEAST_BAR = 12, 10, 6
_HEADS = ("TOKENS", "REQUESTS", "IN", "OUT", "CANCELLED", "FAILED")


class UseSeen(NamedTuple):
    """What the store says of one key: an hour or a day that is not among it had no use."""

    hours: Sequence[UsageSum]
    days: Sequence[UsageSum]


def since(now: float) -> tuple[float, float]:
    """Return from when on hours are asked for, and days: both begin with a whole one."""
    return now - now % HOUR - (HOURS - 1) * HOUR, now - now % DAY - (DAYS - 1) * DAY


def body(key: str, seen: UseSeen, when: When, width: int) -> list[Pieces]:
    """Return the lines, the newest first."""
    hours, days = since(when.now)
    by_hour = [
        (show_moment(start, "%d.%m. %H:00", when.zone), start)
        for start in (hours + number * HOUR for number in reversed(range(HOURS)))
    ]
    by_day = [
        (show_moment(start, "%Y-%m-%d", UTC), start)
        for start in (days + number * DAY for number in reversed(range(DAYS)))
    ]
    command = f"llmgw ctl usage --key {quote(key)} --by hour --since 1d"
    lines = [
        *_table("HOUR", by_hour, seen.hours, width),
        (),
        *_table("DAY (UTC)", by_day, seen.days, width),
        (),
        said(("$ ", "faint"), (command, "command")),
    ]
    return [fit(line, width) for line in lines]


def _table(
    title: str, starts: Sequence[tuple[str, float]], sums: Sequence[UsageSum], width: int
) -> list[Pieces]:
    """Return a line for each hour or day, with a bar that is full where most was used."""
    heads = _HEADS[: max(1, (width - _LABEL - _LEAST_BAR) // _COUNT)]
    room = max(0, width - _LABEL - _COUNT * len(heads))
    known = {one.start: one for one in sums}
    most = max((_tokens(one) for one in sums), default=0)
    lines = [said((title.ljust(_LABEL), "dim"), *((head.rjust(_COUNT), "dim") for head in heads))]
    for label, start in starts:
        one = known.get(start)
        counts = (0,) * len(_HEADS) if one is None else _counts(one)
        role = "faint" if one is None else "text"
        pieces = list(said((label.ljust(_LABEL), "dim")))
        pieces += said(*((short(count).rjust(_COUNT), role) for count in counts[: len(heads)]))
        pieces.append(
            Piece("  " + _bar(0 if one is None else _tokens(one), most, room - 2), "fill2")
        )
        lines.append(tuple(pieces))
    return lines


def _bar(value: int, most: int, room: int) -> str:
    """Return a bar; whatever is more than nothing has a cell."""
    if not value or most <= 0 or room <= 0:
        return ""
    return "━" * max(1, round(value / most * room))


def _counts(one: UsageSum) -> tuple[int, ...]:
    return (
        _tokens(one),
        one.requests,
        one.prompt_tokens,
        one.completion_tokens,
        one.cancelled,
        one.failed,
    )


def _tokens(one: UsageSum) -> int:
    return one.prompt_tokens + one.completion_tokens
