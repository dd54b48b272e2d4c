"""`llmgw ctl config`: read, change and look back at the cluster's settings."""

from typing import Annotated, Any

import msgspec
import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output
from llmgw.cli.output import Column, json_line, note, print_data, print_rows, say
from llmgw.client.interface import Decoded
from llmgw.model.settings import SettingsChange

HERE = "llmgw.cli.ctl.config"

ENTRIES = {
    "get": Entry(f"{HERE}:get", "Print the settings, or those below a path."),
    "set": Entry(f"{HERE}:set_one", "Change one setting: PATH VALUE, the value as YAML."),
    "history": Entry(f"{HERE}:history", "List changes: who, when, from, to."),
}

app = lazy_app(ENTRIES, "Read, change and look back at the cluster's settings.")

Path = Annotated[str, typer.Argument(metavar="[PATH]", help="Dotted: link.lost_after.")]


def get(path: Path = "", output: Output = Format.YAML) -> None:
    """Print the settings, or those below a dotted path."""
    answer: dict[str, Any] = session.connect().get("/settings")
    value = below(answer["settings"], path)
    if isinstance(value, dict | list):
        print_data(value, Format.JSON if output is Format.JSON else Format.YAML)
        return
    for line in (json_line(value) if output is Format.JSON else _plain(value)).split("\n"):
        say(line)


def set_one(
    path: Annotated[str, typer.Argument(help="Dotted: link.lost_after.")],
    value: Annotated[str, typer.Argument(help="As YAML: 30, true, {version: '1.2'}.")],
    dry_run: DryRun = False,
) -> None:
    """Change one setting."""
    from llmgw.model.written import plain_yaml

    new = plain_yaml(value, f"the value of {path}") if value.strip() else ""
    client = session.connect()
    before: dict[str, Any] = client.get("/settings")
    old = below(before["settings"], path)
    if dry_run:
        note(f"{path}: {_plain(old)} would become {_plain(new)}; nothing was changed")
        return
    answer = client.put("/settings", {"path": path, "value": new, "expected": before["version"]})
    say(f"{path}: {_plain(old)} -> {_plain(new)} (version {answer['version']})")


COLUMNS: tuple[Column[SettingsChange], ...] = (
    Column("VERSION", lambda c: str(c.version), right=True),
    Column("WHEN", lambda c: show.age(c.at, session.now()), right=True),
    Column("WHO", lambda c: c.actor),
    Column("PATH", lambda c: c.path),
    Column("FROM", lambda c: show.text(c.before)),
    Column("TO", lambda c: show.text(c.after)),
)


def history(path: Path = "", output: Output = Format.TABLE) -> None:
    """List changes, newest first."""
    found = session.get("/settings-history", tuple[SettingsChange, ...], path=path or None)
    print_rows(found, COLUMNS, output, name=lambda c: str(c.version), empty="never changed")


def below(settings: Decoded, path: str) -> Decoded:
    """Return what is at a dotted path.

    Raises:
        NotFound: there is nothing; names what there is.
    """
    value = settings
    for depth, name in enumerate(p for p in path.split(".") if p):
        if not isinstance(value, dict) or name not in value:
            at = ".".join(path.split(".")[:depth])
            known = ", ".join(value) if isinstance(value, dict) else "nothing"
            below_what = f"below {at} there are" if at else "there are"
            raise NotFound(f"{path}: no such setting", hint=f"{below_what}: {known}")
        value = value[name]
    return value


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
