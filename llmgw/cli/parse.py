"""`llmgw parse`: read a tool's recorded output as an agent does."""

import difflib
import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable, Usage
from llmgw.cli.options import Format
from llmgw.cli.output import note, print_data, print_rows

MOST_BYTES = 64 << 20
"""Of one text; what tools print has a thousandth of it."""

Tool = Annotated[
    str | None, typer.Argument(metavar="[TOOL]", help="Whose output it is: see --list.")
]
File = Annotated[
    str | None,
    typer.Argument(metavar="[FILE]", help="What it printed; `-` or nothing: standard input."),
]
Fields = Annotated[
    str,
    typer.Option(
        "--fields", metavar="A,B,…", help="Columns of a text that does not name them (noheader)."
    ),
]
List = Annotated[bool, typer.Option("--list", help="List the tools, and what to run for each.")]
Form = Annotated[
    Format | None,
    typer.Option(
        "--output",
        "-o",
        help="json or yaml; of --list also table, wide or name. Else json, and a table of --list "
        "on a terminal.",
        show_default=False,
    ),
]


def parse(
    tool: Tool = None,
    file: File = None,
    fields: Fields = "",
    listed: List = False,
    output: Form = None,
) -> None:
    """Print the record that an agent reads from a tool's output, as JSON.

    A field that the text does not tell is null. Attach both to a report of a wrong reading.
    """
    catalog = importlib.import_module("llmgw_agent.parse.catalog")
    if listed:
        _list(catalog.tools(), output or (Format.TABLE if sys.stdout.isatty() else Format.JSON))
        return
    if tool is None:
        raise Usage("no tool named", hint="llmgw parse --list tells which there are")
    reader = _reader(catalog.tools(), tool)
    if output not in (None, Format.JSON, Format.YAML):
        raise Usage(
            f"a record is no table: -o {output.value} is for --list alone",
            hint="it is printed as -o json or -o yaml",
        )
    print_data(_read(reader, _text(file), fields), output or Format.JSON)


def _read(reader: Any, text: str, fields: str) -> object:  # noqa: ANN401 (found by name)
    if not fields:
        return reader.read(text)
    if reader.read_fields is None:
        raise Usage(f"--fields: what {reader.name} reads has no columns to be named")
    return reader.read_fields(text, tuple(name.strip() for name in fields.split(",")))


def _list(tools: tuple[Any, ...], output: Format) -> None:
    if output in (Format.TABLE, Format.WIDE):
        # Never cut, as other tables are on a terminal: what to run is there to be pasted.
        width = max(len(one.name) for one in tools)
        for name, how in (("TOOL", "RUN"), *((one.name, one.how) for one in tools)):
            print(f"{name:<{width}}  {how}")
        return
    data = [{"name": one.name, "how": one.how} for one in tools]
    print_rows(tools, (), output, name=lambda one: str(one.name), data=data)


def _reader(tools: tuple[Any, ...], name: str) -> Any:  # noqa: ANN401 (found by name)
    for one in tools:
        if one.name == name:
            return one
    near = difflib.get_close_matches(name, [one.name for one in tools], n=1)
    hint = "llmgw parse --list tells which there are"
    raise NotFound(
        f"no reader for {name!r}", hint=f"did you mean {near[0]}? {hint}" if near else hint
    )


def _text(file: str | None) -> str:
    """Return what is to be read.

    Raises:
        LlmgwError: there is nothing, or it can't be read.
    """
    if file in (None, "-"):
        if sys.stdin.isatty():
            note("reading standard input, to its end (ctrl+d)")
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        where = "standard input"
    else:
        data, where = _content(Path(str(file))), str(file)
    if len(data) > MOST_BYTES:
        raise Unreadable(f"{where}: more than {MOST_BYTES >> 20} MiB is no tool's output")
    return data.decode(errors="replace")


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as text:
            return text.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file") from error
    except PermissionError as error:
        raise Refused(f"{path}: you may not read it") from error
    except OSError as error:
        raise LlmgwError(f"{path}: {error.strerror}") from error
