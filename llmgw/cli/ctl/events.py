"""`llmgw ctl events`."""

from typing import Annotated

import typer

from llmgw.base.units import show_moment
from llmgw.cli import session
from llmgw.cli.options import Format, Output, Watch, duration
from llmgw.cli.output import Column, print_rows, table
from llmgw.model.events import Event


def _when(event: Event) -> str:
    return show_moment(event.at)


COLUMNS: tuple[Column[Event], ...] = (
    Column("WHEN", _when),
    Column("SEVERITY", lambda e: e.severity),
    Column("KIND", lambda e: e.kind),
    Column("SUBJECT", lambda e: e.subject),
    Column("WHAT", lambda e: e.words),
)


def events(
    since: Annotated[str, typer.Option("--since", help="How far back: 30m, 1d.")] = "1d",
    output: Output = Format.TABLE,
    watch: Watch = False,
) -> None:
    """List what happened, oldest first."""
    if watch:
        from llmgw.cli.watching import follow

        follow(
            ("events",),
            lambda state: table(
                sorted(
                    (session.typed(r, Event, "events") for r in state["events"].values()),
                    key=lambda e: e.at,
                ),
                COLUMNS,
                wide=False,
            ),
            output,
        )
        return
    begin = session.now() - duration("--since", since)
    found = session.get("/events", tuple[Event, ...], since=begin)
    print_rows(found, COLUMNS, output, name=lambda e: e.id, empty=f"nothing within {since}")
