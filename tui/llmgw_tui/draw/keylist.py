"""The list of users' keys: what each used, how much of its limits, and what is wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from llmgw.base.units import counted, show_seconds
from llmgw.model.keys import LIMITS, Key
from llmgw.model.standing import KeyStanding, Spent
from llmgw_tui.draw import measures
from llmgw_tui.draw.measures import share_of
from llmgw_tui.draw.seen import When
from llmgw_tui.draw.states import ABSENT, DOWN, IDLE, SERVING, WARN, State
from llmgw_tui.draw.table import Cell, Column, Gauge, Row
from llmgw_tui.draw.text import Pieces, clean, said

COLUMNS = (
    Column("name", "NAME", 1, least=10, most=32),
    Column("state", "STATE", 1, least=9, most=12),
    Column("used", "USED", 1, "right", least=5),
    Column("hour", "HOUR", 2, "right", least=4),
    Column("hour_tokens", "TOKENS", 3, "right", least=6),
    Column("day", "DAY", 2, "right", least=4),
    Column("day_tokens", "TOKENS", 2, "right", least=6),
    Column("tightest", "LIMIT", 1, least=8, most=26),
    Column("requests_per_minute", "REQ/MIN", 5, least=10, most=18, grow=1, bar=True),
    Column("tokens_per_minute", "TOK/MIN", 5, least=12, most=22, grow=1, bar=True),
    Column("tokens_per_day", "TOK/DAY", 5, least=12, most=24, grow=1, bar=True),
    Column("concurrent", "AT ONCE", 6, least=8, most=14, grow=1, bar=True),
    Column("refused", "REFUSED", 2, "right", least=7),
    Column("models", "MODELS", 4, least=6, most=40),
    Column("ends", "ENDS", 4, "right", least=5),
    Column("priority", "PRIO", 7, "right", least=4),
    Column("key", "KEY", 6, least=10, most=12),
    Column("failed", "FAILED", 8, "right", least=6),
    Column("cancelled", "CANCELLED", 8, "right", least=6),
)
_SHORT = {
    "requests_per_minute": "req/min",
    "tokens_per_minute": "tok/min",
    "tokens_per_day": "tok/day",
    "concurrent": "at once",
}


@dataclass(frozen=True, slots=True)
class KeySeen:
    """A key and how it stands; one that was revoked has no record any more."""

    id: str
    key: Key | None
    standing: KeyStanding | None

    @property
    def name(self) -> str:
        """Return what people call it."""
        return clean(self.key.name) if self.key is not None else "-"


def joined(keys: Sequence[Key], standings: Sequence[KeyStanding]) -> dict[str, KeySeen]:
    """Return every key by id, those that were revoked and used lately too."""
    known = {one.id: one for one in standings}
    seen = {one.id: KeySeen(one.id, one, known.get(one.id)) for one in keys}
    gone = {one.id: KeySeen(one.id, None, one) for one in standings if one.id not in seen}
    return seen | gone


def row(seen: KeySeen, when: When) -> Row:
    """Return a key's row."""
    key, stands = seen.key, seen.standing
    state = state_of(seen, when)
    hour, day = (stands.hour, stands.day) if stands is not None else (None, None)
    cells: dict[str, Cell] = {
        "name": said((seen.name, "strong") if key is not None else (clean(seen.id), "dim")),
        "tightest": _tightest(seen),
        "state": state.pieces,
        "used": said((measures.age(when.since(stands.last_used if stands else None)), "dim")),
        "hour": _count(None if hour is None else hour.requests),
        "hour_tokens": _count(_tokens(hour)),
        "day": _count(None if day is None else day.requests),
        "day_tokens": _count(_tokens(day)),
        "refused": _refused(stands, when),
        "models": said((_models(key), "dim")),
        "ends": said((_ends(key, when), "dim")),
        "priority": said((str(key.priority) if key is not None else "-", "dim")),
        "key": said((clean(seen.id), "dim")),
        "failed": _count(None if day is None else day.failed),
        "cancelled": _count(None if day is None else day.cancelled),
        **{limit: _limit(seen, limit) for limit in LIMITS},
    }
    return Row(seen.id, cells, _order(seen, state, cells), _models(key), {"state": state.word})


def state_of(seen: KeySeen, when: When) -> State:
    """Return how a key is: of no use any more, refused lately, in use, or at rest."""
    key, stands = seen.key, seen.standing
    if key is None:
        return State("revoked", ABSENT)
    if key.expires is not None and key.expires <= when.now:
        return State("ended", DOWN)
    if stands is not None and stands.over:
        return State("over", WARN)
    if stands is not None and stands.hour.requests:
        return State("in use", SERVING)
    return State("idle", IDLE)


def as_filter(name: str) -> str:
    """Return a name as a filter's value: its words are separated by blanks, `?` is any one."""
    return "".join(one if one.isalnum() or one in "-_." else "?" for one in name)


def revoking(seen: KeySeen) -> list[str]:
    """Return what revoking a key does, a line each."""
    lines = [f"Requests with the key {clean(seen.id)} ({seen.name}) are refused within a second."]
    stands = seen.standing
    if stands is not None and stands.day.requests:
        lines.append(f"It was used for {counted(stands.day.requests, 'request')} in the last day.")
    lines.append("What it used stays in the books. A revoked key can't be brought back.")
    return lines


def revoke_command(seen: KeySeen) -> str:
    """Return the command that revokes the same key."""
    return f"llmgw ctl key rm {quote(seen.id)}"


def _limit(seen: KeySeen, limit: str) -> Cell:
    """Return how much of a limit is used; a key without it has none to show."""
    most: int | None = getattr(seen.key, limit) if seen.key is not None else None
    if most is None:
        return said(("-", "absent"))
    stands = seen.standing
    used: int | None = getattr(stands.used, limit) if stands and stands.used else None
    words = f"{'-' if used is None else measures.short(used)}/{measures.short(most)}"
    return Gauge(0.0 if used is None else share_of(used, most), words)


def _tightest(seen: KeySeen) -> Pieces:
    """Return the limit of which the greatest share is used, in words."""
    best: tuple[float, Pieces] = (-1.0, said(("-", "absent")))
    for limit, words in _SHORT.items():
        cell = _limit(seen, limit)
        if isinstance(cell, Gauge) and (cell.share or 0.0) > best[0]:
            share = cell.share or 0.0
            role = "warn" if share >= 1 else "text"
            best = (share, said((cell.words, role), (f" {words}", "dim")))
    return best[1]


def _refused(stands: KeyStanding | None, when: When) -> Pieces:
    if stands is None or stands.refused is None:
        return said(("-", "absent"))
    ago = when.since(stands.refused_at)
    lately = ago is not None and ago < 3600
    words = f"{stands.refused}" + (f" {measures.age(ago)}" if ago is not None else "")
    return said((words, "warn" if lately else "dim"))


def _models(key: Key | None) -> str:
    if key is None:
        return "-"
    return "all" if key.models is None else clean(", ".join(key.models)) or "none"


def _ends(key: Key | None, when: When) -> str:
    if key is None or key.expires is None:
        return "-"
    left = key.expires - when.now
    return "ended" if left <= 0 else show_seconds(left)


def _tokens(spent: Spent | None) -> int | None:
    return None if spent is None else spent.prompt_tokens + spent.completion_tokens


def _count(value: int | None) -> Pieces:
    return said(("-", "absent")) if value is None else said(measures.short(value))


def _order(seen: KeySeen, state: State, cells: dict[str, Cell]) -> dict[str, float | str]:
    stands = seen.standing
    order: dict[str, float | str] = {
        "state": state.urgency, "key": seen.id,
        "models": _models(seen.key),
    }  # fmt: skip
    numbers: dict[str, float | None] = {}
    if stands is not None:
        numbers = {
            "used": None if stands.last_used is None else -stands.last_used,
            "hour": -stands.hour.requests, "hour_tokens": -(_tokens(stands.hour) or 0),
            "day": -stands.day.requests, "day_tokens": -(_tokens(stands.day) or 0),
            "refused": None if stands.refused is None else -stands.refused,
            "failed": -stands.day.failed, "cancelled": -stands.day.cancelled,
        }  # fmt: skip
    if seen.key is not None:
        order["name"] = seen.name  # those that were revoked come last
        numbers |= {"ends": seen.key.expires, "priority": -seen.key.priority}
    for limit in LIMITS:
        cell = cells[limit]
        numbers[limit] = -(cell.share or 0.0) if isinstance(cell, Gauge) else None
    return order | {name: value for name, value in numbers.items() if value is not None}
