"""`llmgw context`: which cluster commands speak to."""

import os
from pathlib import Path
from typing import Annotated

import typer

from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import Format, Output
from llmgw.cli.output import Column, print_rows, say

HERE = "llmgw.cli.context"

ENTRIES = {
    "list": Entry(f"{HERE}:list_all", "List contexts; the current one is marked."),
    "use": Entry(f"{HERE}:use", "Make a context the current one."),
    "add": Entry(f"{HERE}:add", "Add or change a context."),
    "rm": Entry(f"{HERE}:remove", "Remove a context; the token's file stays."),
}

app = lazy_app(ENTRIES, "Choose which cluster commands speak to.")

Row = dict[str, str | None]

COLUMNS: tuple[Column[Row], ...] = (
    Column("", lambda r: "*" if r["current"] else " "),
    Column("CONTEXT", lambda r: r["name"] or ""),
    Column("SERVER", lambda r: r["server"] or ""),
    Column("TOKEN FILE", lambda r: r["token_file"] or "-"),
)


def list_all(output: Output = Format.TABLE) -> None:
    """List contexts; the current one is marked."""
    from llmgw.client import contexts

    found = contexts.read(contexts.config_path(os.environ))
    rows: list[Row] = [
        {
            "name": name,
            "server": entry.server,
            "token_file": entry.token_file,
            "current": "yes" if name == found.current else None,
        }
        for name, entry in sorted(found.contexts.items())
    ]
    print_rows(
        rows,
        COLUMNS,
        output,
        name=lambda r: r["name"] or "",
        empty="no contexts; see `context add`",
    )


def use(name: Annotated[str, typer.Argument(help="The context's name.")]) -> None:
    """Make a context the current one."""
    from llmgw.client import contexts

    contexts.use(contexts.config_path(os.environ), name)
    say(f"commands speak to {name}")


def add(
    name: Annotated[str, typer.Argument(help="The context's name.")],
    server: Annotated[str, typer.Argument(help="The admin address: http://HOST:7441.")],
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file of mode 0600 with the token.")
    ] = None,
) -> None:
    """Add or change a context, and make it the current one."""
    from llmgw.client import contexts

    if token_file is not None:
        contexts.read_token(token_file.expanduser())
    path = contexts.config_path(os.environ)
    contexts.save(path, name, server, token_file.absolute() if token_file else None)
    say(f"commands speak to {name}")


def remove(name: Annotated[str, typer.Argument(help="The context's name.")]) -> None:
    """Remove a context; the token's file stays."""
    from llmgw.client import contexts

    contexts.remove(contexts.config_path(os.environ), name)
    say(f"{name} is removed")
