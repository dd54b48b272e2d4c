"""What commands print: data on stdout in the asked form, everything else on stderr."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import Generic, TypeVar

import msgspec

from llmgw.base import cells as cells_of
from llmgw.base.errors import Usage
from llmgw.cli.options import Format

T = TypeVar("T")

ABSENT = "-"
_NOT_ASCII = re.compile(r"[\x7f-\U0010ffff]")

_COLOURS = {
    # Healthy is never loud: colour marks what somebody should look at.
    "ready": "36",
    "installed": "36",
    "starting": "32",
    "fetching": "32",
    "installing": "32",
    "draining": "33",
    "cordoned": "33",
    "stopping": "33",
    "unreachable": "33",
    "stuck": "91",
    "lost": "91",
    "failed": "91",
}


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a table.

    `show` returns its text; `ABSENT` for what is not known. `wide` columns show with `-o wide`;
    `full` is what a column shows there, if more than in a table.
    """

    title: str
    show: Callable[[T], str]
    wide: bool = False
    right: bool = False
    full: Callable[[T], str] | None = None


def colour_wanted() -> bool:
    """Say whether stdout is a terminal that may be coloured (NO_COLOR, TERM=dumb, --no-color)."""
    environ = os.environ
    return (
        sys.stdout.isatty() and "NO_COLOR" not in environ and environ.get("TERM", "dumb") != "dumb"
    )


def note(words: str) -> None:
    """Say something to the person, apart from the data."""
    for line in words.split("\n"):
        sys.stderr.write(f"{printable(line)}\n")


def say(line: str) -> None:
    """Print a line for the person: whatever it quotes, it is one line and only text."""
    print(printable(line))


def print_rows(
    rows: Sequence[T],
    columns: Sequence[Column[T]],
    form: Format,
    *,
    name: Callable[[T], str],
    data: object = None,
    empty: str = "",
) -> None:
    """Print a list in the form that was asked for.

    Args:
        rows: what is listed.
        columns: of the table.
        form: table, wide, json, yaml or name.
        name: what `-o name` prints of a row.
        data: what JSON and YAML print, when it is not `rows` itself.
        empty: what a person is told, on stderr, when there are no rows.
    """
    if form in (Format.JSON, Format.YAML):
        print_data(rows if data is None else data, form)
    elif form is Format.NAME:
        for row in rows:
            say(name(row))
    elif not rows:
        note(empty or "nothing there")
    else:
        for line in table(rows, columns, wide=form is Format.WIDE):
            print(line)


def print_data(data: object, form: Format) -> None:
    """Print one value as JSON or YAML; a table format prints JSON as well."""
    if form is Format.YAML:
        from llmgw.model.written import to_yaml

        sys.stdout.write(to_yaml(data))
        return
    print(visible(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()))


def json_line(data: object) -> str:
    """Return one value as JSON in one line, without what could steer a terminal."""
    return visible(msgspec.json.encode(data).decode())


def visible(text: str) -> str:
    """Return JSON in which every character is printable, or escaped as JSON does it.

    The encoder leaves characters as they are that turn a line round or begin a terminal's command.
    """
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    if match[0].isprintable():
        return match[0]
    import json

    return json.dumps(match[0])[1:-1]


def table(rows: Sequence[T], columns: Sequence[Column[T]], *, wide: bool) -> list[str]:
    """Return the lines of a table: heads, then a line a row, columns two spaces apart.

    On a terminal lines are cut at its width; elsewhere nothing is cut.
    """
    shown = [c for c in columns if wide or not c.wide]
    shows = [c.full if wide and c.full is not None else c.show for c in shown]
    cells = [[printable(show(row)) for show in shows] for row in rows]
    widths = [
        max([len(c.title), *(cells_of.width(line[i]) for line in cells)])
        for i, c in enumerate(shown)
    ]
    most = most_cells()
    lines = [_line([c.title for c in shown], shown, widths, most, coloured=False)]
    coloured = colour_wanted()
    return lines + [_line(line, shown, widths, most, coloured=coloured) for line in cells]


def most_cells() -> int:
    """Return the cells of a terminal's line; 0 where there is no terminal, and nothing is cut."""
    return get_terminal_size().columns if sys.stdout.isatty() else 0


def cut_to_line(text: str) -> str:
    """Return a text that takes one line of a terminal at most."""
    most = most_cells()
    return cells_of.cut(text, most - 1) if most and cells_of.width(text) >= most else text


def _line(
    cells: list[str], columns: list[Column[T]], widths: list[int], most: int, *, coloured: bool
) -> str:
    taken = 0
    parts: list[str] = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        padded = cells_of.padded(cell, width, right=column.right)
        if most and taken + width > most:
            padded = cells_of.cut(padded, most - taken)
        taken += width + 2
        colour = _COLOURS.get(cell.split(" ")[0]) if coloured else None
        parts.append(f"\x1b[{colour}m{padded}\x1b[0m" if colour else padded)
        if most and taken >= most:
            break
    return "  ".join(parts).rstrip()


def printable(text: str) -> str:
    """Return a text without control characters: what others wrote must not steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def fields(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines `name   value` for one thing; pairs without a value are left out."""
    named = [(printable(name), printable(value)) for name, value in pairs]
    width = max((cells_of.width(name) for name, _ in named), default=0)
    return [f"{cells_of.padded(name, width)}  {value}" for name, value in named if value]


def confirm(words: str, name: str, *, yes: bool) -> None:
    """Let a person type the name of what goes; `--yes` skips it.

    Raises:
        Usage: there is nobody to ask, or another name was typed.
    """
    if yes:
        return
    note(words)
    if not sys.stdin.isatty():
        raise Usage("not done: nobody to ask", hint="add --yes to do it without asking")
    sys.stderr.write(f"type {name} to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise Usage("not done: another name was typed")


def agreed(words: str, name: str, *, yes: bool, dry_run: bool) -> bool:
    """Say whether what is described is to be done: never with `--dry-run`, else if confirmed.

    Raises:
        Usage: as `confirm`.
    """
    if dry_run:
        note(f"{words}; nothing was changed")
        return False
    confirm(words, name, yes=yes)
    return True
