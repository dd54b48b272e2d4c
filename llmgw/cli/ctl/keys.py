"""`llmgw ctl keys`."""

from typing import Annotated

import typer

from llmgw.base.units import show_seconds
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import Column, print_rows, table
from llmgw.model.keys import Key
from llmgw.model.standing import KeyStanding, Spent


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


USE: tuple[Column[KeyStanding], ...] = (
    Column("KEY", lambda k: k.id),
    Column("NAME", lambda k: "(revoked)" if k.revoked else show.text(k.name)),
    Column("LAST USED", lambda k: show.age(k.last_used, session.now()), right=True),
    Column("HOUR", lambda k: str(k.hour.requests), right=True),
    Column("TOKENS", lambda k: str(tokens(k.hour)), right=True),
    Column("DAY", lambda k: str(k.day.requests), right=True),
    Column("TOKENS", lambda k: str(tokens(k.day)), right=True),
    Column("REFUSED", lambda k: show.text(k.refused), right=True),
    Column("OVER", lambda k: "yes" if k.over else "no"),
    Column("CANCELLED", lambda k: str(k.day.cancelled), right=True, wide=True),
    Column("FAILED", lambda k: str(k.day.failed), right=True, wide=True),
)


def tokens(spent: Spent) -> int:
    """Return all tokens, read and made."""
    return spent.prompt_tokens + spent.completion_tokens


def keys(
    output: Output = Format.TABLE,
    use: Annotated[
        bool, typer.Option("--use", help="What they used in this hour and the last day.")
    ] = False,
    watch: Watch = False,
) -> None:
    """List users' keys; the keys themselves are stored nowhere."""
    if watch:
        _follow(output, use=use)
        return
    if use:
        _list_use(output)
        return
    found = session.connect().get("/keys")
    print_rows(
        session.typed(found, tuple[Key, ...], "keys"),
        COLUMNS,
        output,
        name=lambda k: k.id,
        data=found,
        empty="no keys; `llmgw ctl key add NAME` makes one",
    )


def _follow(output: Format, *, use: bool) -> None:
    """List them again and again."""
    from llmgw.cli.watching import poll

    wide = output is Format.WIDE
    if use:
        poll(
            lambda: session.connect().get("/key-use"),
            lambda found: table(
                session.typed(found, tuple[KeyStanding, ...], "key-use"), USE, wide=wide
            ),
            output,
        )
    else:
        poll(
            lambda: session.connect().get("/keys"),
            lambda found: table(session.typed(found, tuple[Key, ...], "keys"), COLUMNS, wide=wide),
            output,
        )


def _list_use(output: Format) -> None:
    """List what keys used, also those that were revoked meanwhile."""
    found = session.connect().get("/key-use")
    print_rows(
        session.typed(found, tuple[KeyStanding, ...], "key-use"),
        USE,
        output,
        name=lambda k: k.id,
        data=found,
        empty="no keys; `llmgw ctl key add NAME` makes one",
    )
