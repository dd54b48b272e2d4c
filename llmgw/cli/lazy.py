"""A group of commands that knows their names and one line each, and loads only what is called.

Importing everything at the top costs nine times a bare interpreter; a listing needs none of it.
"""

import importlib
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    # Typer's own tracebacks print the locals of every frame, secrets among them.
    "pretty_exceptions_enable": False,
}
"""How every Typer of the tree is made."""


class Entry(NamedTuple):
    """Where a command lives and what it does, in one line.

    `target` is `module:attribute`; the attribute is a function, or a Typer for a group.
    """

    target: str
    summary: str
    panel: str = "Commands"


class LazyGroup(TyperGroup):
    """A click group over a table of entries.

    `fallback` names the command that takes a first word that is no command: `ctl node gpu-03`.
    """

    entries: ClassVar[dict[str, Entry]] = {}
    fallback: ClassVar[str | None] = None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one command; None when there is none of that name."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        if isinstance(found, typer.Typer):
            command = get_command(found)
        else:
            single = typer.Typer(**PLAIN)
            single.command(name=cmd_name)(found)
            command = get_command(single)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the listing from the table, by panel, without loading anything."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            panels.setdefault(entry.panel, []).append((name, entry.summary))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; a name that is not there is answered with the nearest ones."""
        name = args[0]
        if self.fallback and name not in self.entries and not name.startswith("-"):
            return super().resolve_command(ctx, [self.fallback, *args])
        if name not in self.entries and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, self.entries, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


def lazy_app(
    entries: dict[str, Entry], help_text: str, *, fallback: str | None = None
) -> typer.Typer:
    """Return a Typer whose commands are the entries of a table."""
    group = type("Group", (LazyGroup,), {"entries": entries, "fallback": fallback})
    app = typer.Typer(cls=group, help=help_text, no_args_is_help=True, **PLAIN)

    @app.callback()
    def nothing() -> None:
        """Take no options of its own."""

    return app
