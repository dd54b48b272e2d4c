"""`llmgw ctl model`: add, remove, show, history; what changes one is in `model_change`."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from llmgw.base.errors import NotFound, Unreadable
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Yes
from llmgw.cli.output import Column, agreed, note, print_data, print_rows, say
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.replica import OVER, Replica

HERE = "llmgw.cli.ctl.model"
CHANGE = "llmgw.cli.ctl.model_change"

ENTRIES = {
    "add": Entry(f"{HERE}:add", "Add or change a model from a YAML or JSON file."),
    "show": Entry(f"{HERE}:show_one", "Print a model as YAML, as `add` takes it."),
    "plan": Entry(
        "llmgw.cli.ctl.model_plan:plan", "Say what serving a model would take; change nothing."
    ),
    "serve": Entry(
        "llmgw.cli.ctl.model_serve:serve", "Serve a model: from its plan to ready replicas."
    ),
    "edit": Entry(f"{CHANGE}:edit", "Edit a model as YAML in $EDITOR."),
    "scale": Entry(f"{CHANGE}:scale", "Say how many replicas of a model are wanted."),
    "resources": Entry(
        f"{CHANGE}:resources", "Show or set the memory and cores that a model reserves."
    ),
    "restart": Entry(f"{CHANGE}:restart", "Replace every replica by one started anew."),
    "rm": Entry(f"{HERE}:remove", "Remove a model; its replicas are stopped."),
    "history": Entry(f"{HERE}:history", "List former versions of a model."),
}

app = lazy_app(ENTRIES, "Add, change, remove or show a model.", fallback="show")

Name = Annotated[str, typer.Argument(help="The model's public name.")]
File = Annotated[str, typer.Argument(help="A YAML or JSON file, or - for standard input.")]
Version = Annotated[
    int | None,
    typer.Option("--if-version", help="Only if this is its version; 0: only if it is new."),
]


def add(file: File, if_version: Version = None, dry_run: DryRun = False) -> None:
    """Add or change a model from a YAML or JSON file."""
    from llmgw.model.catalog_check import check_model

    model, where = read_file(file), "standard input" if file == "-" else file
    if problems := check_model(model):
        for problem in problems:
            note(f"{where}: {problem.path}: {problem.words}")
        raise Unreadable(f"{where}: {show.count(len(problems), 'problem')}, nothing was changed")
    if dry_run:
        note(f"{model.name}: {_change(model)}; nothing was changed")
        return
    answer = session.connect().put(
        f"/models/{model.name}", msgspec.to_builtins(model), version=if_version
    )
    entry = session.typed(answer, CatalogEntry, "model")
    say(f"{entry.model.name} is version {entry.version}")


def read_file(file: str) -> Model:
    """Return the model that a YAML or JSON file holds; `-` is standard input."""
    from llmgw.model.written import read_yaml

    text, where = _read(file)
    return read_yaml(text, Model, where)


def show_one(name: Name, output: Output = Format.YAML) -> None:
    """Print a model as YAML, as `add` takes it."""
    entry = session.get(f"/models/{name}", CatalogEntry)
    print_data(entry.model, Format.JSON if output is Format.JSON else Format.YAML)


def remove(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove a model; its replicas are stopped."""
    session.get(f"/models/{name}", CatalogEntry)
    found = session.get("/replicas", tuple[Replica, ...])
    running = [r for r in found if r.model == name and r.state not in OVER]
    words = f"{name}: {show.count(len(running), 'replica')} will be stopped"
    if not agreed(words, name, yes=yes, dry_run=dry_run):
        return
    session.connect().delete(f"/models/{name}")
    say(f"{name} is removed")


COLUMNS: tuple[Column[CatalogEntry], ...] = (
    Column("VERSION", lambda e: str(e.version), right=True),
    Column("CHANGED", lambda e: show.age(e.changed, session.now()), right=True),
    Column("BY", lambda e: e.changed_by),
    Column("PROFILES", lambda e: ", ".join(f"{p.name} x{p.replicas}" for p in e.model.profiles)),
)


def history(name: Name, output: Output = Format.TABLE) -> None:
    """List former versions of a model, newest first."""
    found = session.get(f"/model-history/{name}", tuple[CatalogEntry, ...])
    print_rows(found, COLUMNS, output, name=lambda e: str(e.version), empty=f"{name}: no history")


def _read(file: str) -> tuple[str, str]:
    if file == "-":
        return sys.stdin.read(), "standard input"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except FileNotFoundError as error:
        raise NotFound(f"{file}: no such file") from error
    except OSError as error:
        raise Unreadable(f"{file}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{file}: is no text in UTF-8") from error


def _change(model: Model) -> str:
    try:
        entry = session.get(f"/models/{model.name}", CatalogEntry)
    except NotFound:
        return "would be added"
    if entry.model == model:
        return f"is the same as version {entry.version}"
    from llmgw.cli.ctl.model_change import changes

    changed = "; ".join(changes(entry.model, model))
    return f"would become version {entry.version + 1}; changed: {changed}"
