"""`llmgw ctl keys`."""

from llmgw.base.units import show_seconds
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import Column, print_rows
from llmgw.model.keys import Key


def _expires(key: Key) -> str:
    if key.expires is None:
        return "never"
    left = key.expires - session.now()
    return "over" if left <= 0 else f"in {show_seconds(left)}"


_SHORT = {
    "requests_per_minute": "requests/min",
    "tokens_per_minute": "tokens/min",
    "tokens_per_day": "tokens/day",
    "concurrent": "at once",
}


def _limits(key: Key) -> str:
    limits = ((getattr(key, name), words) for name, words in _SHORT.items())
    return ", ".join(f"{most} {words}" for most, words in limits if most is not None) or "-"


COLUMNS: tuple[Column[Key], ...] = (
    Column("KEY", lambda k: k.id),
    Column("NAME", lambda k: k.name),
    Column("MODELS", lambda k: "all" if k.models is None else ", ".join(k.models) or "none"),
    Column("CREATED", lambda k: show.age(k.created, session.now()), right=True),
    Column("EXPIRES", _expires, right=True),
    Column("LIMITS", _limits, wide=True),
    Column("PRIORITY", lambda k: str(k.priority), right=True, wide=True),
)


def keys(output: Output = Format.TABLE) -> None:
    """List users' keys; the keys themselves are stored nowhere."""
    found = session.connect().get("/keys")
    print_rows(
        session.typed(found, tuple[Key, ...], "keys"),
        COLUMNS,
        output,
        name=lambda k: k.id,
        data=found,
        empty="no keys; `llmgw ctl key add NAME` makes one",
    )
