"""`llmgw ctl usage`."""

from typing import Annotated

import typer

from llmgw.base.units import show_moment
from llmgw.cli import session
from llmgw.cli.options import Format, Output, duration
from llmgw.cli.output import Column, print_rows
from llmgw.model.keys import UsageRow

COLUMNS: tuple[Column[UsageRow], ...] = (
    Column("HOUR", lambda r: show_moment(r.hour, "%Y-%m-%d %H:00")),
    Column("KEY", lambda r: r.key),
    Column("MODEL", lambda r: r.model),
    Column("REQUESTS", lambda r: str(r.requests), right=True),
    Column("PROMPT", lambda r: str(r.prompt_tokens), right=True),
    Column("REPLY", lambda r: str(r.completion_tokens), right=True),
    Column("CANCELLED", lambda r: str(r.cancelled), right=True),
    Column("ESTIMATED", lambda r: str(r.estimated), right=True),
    Column("FAILED", lambda r: str(r.failed), right=True),
)


def usage(
    since: Annotated[str, typer.Option("--since", help="How far back: 6h, 7d.")] = "1d",
    output: Output = Format.TABLE,
) -> None:
    """List what was used, by hour, key and model (tokens)."""
    now = session.now()
    found = session.get(
        "/usage", tuple[UsageRow, ...], since=now - duration("--since", since), until=now + 1
    )
    print_rows(found, COLUMNS, output, name=lambda r: r.key, empty=f"nothing within {since}")
