"""`llmgw ctl hardware`."""

from typing import Annotated

import typer

from llmgw.base.units import show_moment, show_seconds
from llmgw.cli import session
from llmgw.cli.options import Format, Output, duration
from llmgw.cli.output import ABSENT, Column, print_rows
from llmgw.model.hardware import HardwareChange


def _when(change: HardwareChange) -> str:
    return show_moment(change.when)


def _lasted(change: HardwareChange) -> str:
    return show_seconds(change.until - change.at) if change.until > change.at else ABSENT


COLUMNS: tuple[Column[HardwareChange], ...] = (
    Column("WHEN", _when),
    Column("LASTED", _lasted),
    Column("NODE", lambda c: c.node),
    Column("KIND", lambda c: c.kind),
    Column("WHAT", lambda c: c.words),
    Column("SUBJECT", lambda c: c.subject, wide=True),
    Column("IN ALL", lambda c: str(c.total), wide=True),
)


def hardware(
    node: Annotated[str, typer.Argument(help="One node's alone.", show_default=False)] = "",
    since: Annotated[str, typer.Option("--since", help="How far back: 30m, 24h.")] = "24h",
    output: Output = Format.TABLE,
) -> None:
    """List port changes, other subnet managers and driver errors (XIDs), oldest first.

    Listed is what was heard of since then. WHEN is when it happened: of a machine that joined later
    also what its kernel had logged before.
    """
    query = {"node": node or None, "since": session.now() - duration("--since", since)}
    found = session.get("/hardware-changes", tuple[HardwareChange, ...], **query)
    found = tuple(sorted(found, key=lambda change: change.when))
    print_rows(found, COLUMNS, output, name=lambda c: c.id, empty=f"nothing within {since}")
