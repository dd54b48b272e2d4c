"""Options that many commands share, said once."""

from enum import StrEnum
from typing import Annotated

import typer

from llmgw.base.errors import Unreadable, Usage
from llmgw.base.units import parse_seconds


class Format(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def duration(option: str, text: str) -> float:
    """Return the seconds of an option's text.

    Raises:
        Usage: it is no duration.
    """
    try:
        return parse_seconds(text)
    except Unreadable as error:
        raise Usage(f"{option}: {error.message}", hint=error.hint) from error


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="table, wide, json, yaml or name.", show_default=True),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Follow: print again what changes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
