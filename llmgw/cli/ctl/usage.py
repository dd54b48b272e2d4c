"""`llmgw ctl usage`."""

import csv
import sys
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from llmgw.base.errors import NotFound, Refused, Usage
from llmgw.base.units import show_moment
from llmgw.cli import session
from llmgw.cli.options import Format, duration
from llmgw.cli.output import Column, print_rows, printable
from llmgw.model.keys import UsageSum


class Printed(StrEnum):
    """How usage is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"


COUNTS: tuple[Column[UsageSum], ...] = (
    Column("REQUESTS", lambda r: str(r.requests), right=True),
    Column("PROMPT", lambda r: str(r.prompt_tokens), right=True),
    Column("REPLY", lambda r: str(r.completion_tokens), right=True),
    Column("CANCELLED", lambda r: str(r.cancelled), right=True),
    Column("ESTIMATED", lambda r: str(r.estimated), right=True),
    Column("FAILED", lambda r: str(r.failed), right=True),
)
APART: dict[str, Column[UsageSum]] = {
    "hour": Column("HOUR", lambda r: show_moment(r.start, "%Y-%m-%d %H:00")),
    "day": Column("DAY (UTC)", lambda r: show_moment(r.start, "%Y-%m-%d", UTC)),
    "key": Column("KEY", lambda r: r.key or ""),
    "model": Column("MODEL", lambda r: r.model or ""),
}


def usage(
    since: Annotated[
        str, typer.Option("--since", help="From: 6h or 7d ago, or 2026-01-31[T10:00].")
    ] = "1d",
    until: Annotated[
        str | None, typer.Option("--until", help="Until, in the same way; now without.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="What is told apart: hour or day, key, model, with commas.")
    ] = "hour,key,model",
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Of this key alone: its id.")
    ] = None,
    alone: Annotated[
        str | None,
        typer.Option(
            "--alone",
            metavar="DIRECTORY",
            help="Of a gateway without a control plane: its state directory.",
        ),
    ] = None,
    output: Annotated[
        Printed, typer.Option("--output", "-o", help="table, wide, json, yaml, name or csv.")
    ] = Printed.TABLE,
) -> None:
    """List what was used (tokens), added up by hour or day, key and model."""
    _check_by(by)
    now = session.now()
    end = now + 1 if until is None else _moment("--until", until, now)
    begin = _moment("--since", since, now)
    if alone is None:
        asked: dict[str, str | float | None] = {"since": begin, "until": end, "by": by}
        asked |= {} if key is None else {"key": key}
        found = session.get("/usage/sums", tuple[UsageSum, ...], **asked)
    else:
        found = _kept(Path(alone), begin, end, by, key)
    if output is Printed.CSV:
        _write_csv(found)
        return
    apart = [APART[name] for name in APART if name in by.replace(" ", "").split(",")]
    print_rows(
        found,
        (*apart, *COUNTS),
        Format(output.value),
        name=lambda r: r.key or r.model or "",
        empty=f"nothing since {since}",
    )


def _kept(
    directory: Path, begin: float, end: float, by: str, key: str | None
) -> tuple[UsageSum, ...]:
    """Return the same of what a gateway without a control plane keeps in files of its own."""
    files: Any = import_module("llmgw.gateway.alone_usage")
    sums: Any = import_module("llmgw.control.usage")
    disk: Any = import_module("llmgw.base.system")
    apart = sums.told_apart(by)
    try:
        if not (directory / files.DIRECTORY).is_dir():
            raise NotFound(
                f"{directory}: no gateway has kept usage there",
                hint="name the state directory of a gateway with --endpoints",
            )
        rows = files.kept_rows(directory, disk.SystemFiles(), since=begin, until=end)
    except OSError as error:
        raise Refused(f"{directory}: can't be read: {error.strerror}") from error
    found: tuple[UsageSum, ...] = sums.summed(
        (row for row in rows if key in {None, row.key}), apart
    )
    return found


def _check_by(by: str) -> None:
    wrong = next(
        (name for name in by.replace(" ", "").split(",") if name not in {"", *APART}), None
    )
    if wrong is not None:
        raise Usage(f"--by: {wrong!r} is none of {', '.join(APART)}")


def _moment(option: str, text: str, now: float) -> float:
    """Return the time that an option names: a date in UTC, or how long ago."""
    if "-" not in text:
        return now - duration(option, text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "2026-01-31 or 2026-01-31T10:00"
        raise Usage(f"{option}: {text!r} is no date", hint=hint) from error
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _write_csv(rows: tuple[UsageSum, ...]) -> None:
    """Write all rows with a head; what is not told apart is empty, times are ISO in UTC."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(UsageSum.__struct_fields__)
    for row in rows:
        values = msgspec.structs.asdict(row)
        if row.start is not None:
            values["start"] = show_moment(row.start, "%Y-%m-%dT%H:%M:%S+00:00", UTC)
        writer.writerow(
            ["" if value is None else printable(str(value)) for value in values.values()]
        )
