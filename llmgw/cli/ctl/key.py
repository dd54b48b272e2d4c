"""`llmgw ctl key`: make or remove a user's key."""

from typing import Annotated, Any

import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Yes, duration
from llmgw.cli.output import agreed, note, print_data, say
from llmgw.model.keys import Key

HERE = "llmgw.cli.ctl.key"

ENTRIES = {
    "add": Entry(f"{HERE}:add", "Make a key; it is shown once."),
    "rm": Entry(f"{HERE}:remove", "Remove a key; requests with it are refused."),
}

app = lazy_app(ENTRIES, "Make or remove a user's key.")


def add(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.")],
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="Only this model; may be repeated.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="After how long: 12h, 30d.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Make a key; it is shown once and stored nowhere."""
    asked: dict[str, Any] = {"name": name}
    if model:
        asked["models"] = model
    if expires is not None:
        asked["expires_in"] = duration("--expires", expires)
    client = session.connect()
    if model:
        there = {one["model"]["name"] for one in client.get("/models")}
        for name_ in sorted(set(model) - there):
            note(f"no model {name_!r} is in the catalog yet")
    answer = client.post("/keys", asked)
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    say(answer["key"])
    note(f"key {answer['id']} of {answer['name']}: shown this once")


def remove(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The key's id, as `ctl keys` lists it.")
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove a key; requests with it are refused within a second."""
    found = next((one for one in session.get("/keys", tuple[Key, ...]) if one.id == key), None)
    if found is None:
        raise NotFound(f"no key with the id {key!r}", hint="list them: llmgw ctl keys")
    words = f"{key} ({found.name}): requests with it will be refused"
    if not agreed(words, key, yes=yes, dry_run=dry_run):
        return
    session.connect().delete(f"/keys/{key}")
    say(f"{key} is removed")
