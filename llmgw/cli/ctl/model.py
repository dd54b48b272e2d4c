"""`llmgw ctl model`: add, remove, show, history; what changes one is in `model_change`."""

from typing import Annotated

import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.modelfile import read_file
from llmgw.cli.options import DryRun, Format, Output, Yes
from llmgw.cli.output import Column, agreed, note, print_data, print_rows, say
from llmgw.model.catalog import CatalogEntry

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


class Shown(CatalogEntry, frozen=True, kw_only=True):
    """A catalog entry as the API gives it: with what is the matter with its replicas."""

    note: str | None = None


app = lazy_app(ENTRIES, "Add, change, remove or show a model.", fallback="show")

Name = Annotated[str, typer.Argument(help="The model's public name.")]
File = Annotated[str, typer.Argument(help="A YAML or JSON file, or - for standard input.")]
Version = Annotated[
    int | None,
    typer.Option("--if-version", help="Only if this is its version; 0: only if it is new."),
]


def add(file: File, if_version: Version = None, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Add or change a model from a YAML or JSON file."""
    from llmgw.cli.ctl.model_change import last_changed, put

    model = read_file(file)
    try:
        entry = session.get(f"/models/{model.name}", CatalogEntry)
    except NotFound:
        entry = None
    if entry is not None and entry.model != model and if_version is None:
        note(f"{model.name}: in place of version {entry.version}, {last_changed(entry)}")
    put(entry, model, expected=if_version, yes=yes, dry_run=dry_run)


def show_one(name: Name, output: Output = Format.YAML) -> None:
    """Print a model as YAML, as `add` takes it."""
    entry = session.get(f"/models/{name}", Shown)
    print_data(entry.model, Format.JSON if output is Format.JSON else Format.YAML)
    if entry.note:
        note(f"{name}: {entry.note}")


def remove(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove a model; its replicas are stopped."""
    from llmgw.cli.ctl import ends

    session.get(f"/models/{name}", CatalogEntry)
    ending = [one for one in ends.runs() if one.model == name]
    words = f"{name}: it leaves the catalog; {ends.ending_words(ending)}"
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
