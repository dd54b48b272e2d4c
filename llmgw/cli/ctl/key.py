"""`llmgw ctl key`: make, look at, change or remove a user's key."""

from collections.abc import Sequence
from shlex import quote
from typing import Annotated, Any

import typer

from llmgw.base.errors import NotFound, Usage
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Yes, duration
from llmgw.cli.output import agreed, note, print_data, say
from llmgw.model.keys import LIMITS, Key

HERE = "llmgw.cli.ctl.key"
NONE = "none"

ENTRIES = {
    "add": Entry(f"{HERE}:add", "Make a key; it is shown once."),
    "show": Entry(f"{HERE}:show_key", "Show a key, its limits and what it used of them."),
    "edit": Entry(f"{HERE}:edit", "Change a key's name, models, end, limits or priority."),
    "rm": Entry(f"{HERE}:remove", "Remove a key; requests with it are refused."),
}

app = lazy_app(ENTRIES, "Make, look at, change or remove a user's key.")

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `ctl keys` lists it.")]
Models = Annotated[
    list[str] | None, typer.Option("--model", "-m", help="Only this model; may be repeated.")
]
PerMinute = Annotated[
    str | None, typer.Option("--requests-per-minute", help="At most so many, or none.")
]
TokensPerMinute = Annotated[
    str | None, typer.Option("--tokens-per-minute", help="At most so many, or none.")
]
TokensPerDay = Annotated[
    str | None, typer.Option("--tokens-per-day", help="At most so many, or none.")
]
Concurrent = Annotated[
    str | None, typer.Option("--concurrent", help="At most so many requests at once, or none.")
]
Priority = Annotated[
    int | None,
    typer.Option("--priority", help="-10 to 10: a higher one leaves a queue first; 0 without."),
]


def add(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.")],
    model: Models = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="After how long: 12h, 30d.")
    ] = None,
    requests_per_minute: PerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    concurrent: Concurrent = None,
    priority: Priority = None,
    output: Output = Format.TABLE,
) -> None:
    """Make a key; it is shown once and stored nowhere."""
    asked: dict[str, Any] = {"name": name}
    if model:
        asked["models"] = model
    if expires is not None:
        asked["expires_in"] = duration("--expires", expires)
    limits = (requests_per_minute, tokens_per_minute, tokens_per_day, concurrent)
    asked |= _limits(limits, priority)
    client = session.connect()
    _note_unknown(model)
    answer = client.post("/keys", asked)
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    say(answer["key"])
    note(f"key {answer['id']} of {answer['name']}: shown this once")


def edit(
    key: KeyId,
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    model: Models = None,
    all_models: Annotated[
        bool, typer.Option("--all-models", help="Any model may be used.")
    ] = False,
    expires: Annotated[
        str | None, typer.Option("--expires", help="From now on: 12h, 30d; or never.")
    ] = None,
    requests_per_minute: PerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    concurrent: Concurrent = None,
    priority: Priority = None,
    output: Output = Format.TABLE,
) -> None:
    """Change a key; what is not named stays. It acts within a second, on the next request."""
    if model and all_models:
        raise Usage("--model and --all-models exclude each other")
    asked: dict[str, Any] = {} if name is None else {"name": name}
    if model or all_models:
        asked["models"] = model or None
    if expires is not None:
        asked["expires_in"] = None if expires == "never" else duration("--expires", expires)
    limits = (requests_per_minute, tokens_per_minute, tokens_per_day, concurrent)
    asked |= _limits(limits, priority)
    if not asked:
        raise Usage(
            "nothing to change", hint=f"llmgw ctl key edit {quote(key)} --tokens-per-day 100000"
        )
    client = session.connect()
    _note_unknown(model)
    answer = client.put(f"/keys/{key}", asked)
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
    else:
        say(f"{key} is changed: {', '.join(sorted(asked))}")


def show_key(key: KeyId, output: Output = Format.TABLE) -> None:
    """Show a key, its limits, and what it used of them over all gateways."""
    client = session.connect()
    found = next((one for one in client.get("/keys") if one["id"] == key), None)
    if found is None:
        raise NotFound(f"no key with the id {key!r}", hint="list them: llmgw ctl keys")
    use = next((one for one in client.get("/quotas") if one["id"] == key), None)
    if output in (Format.JSON, Format.YAML):
        seen = {"used": use and use["used"], "over": bool(use and use["over"])}
        print_data({**found, **seen}, output)
        return
    one = session.typed(found, Key, "key")
    used = (use or {}).get("used") or {}
    say(f"key       {one.id}")
    say(f"name      {show.text(one.name)}")
    say(f"models    {'all' if one.models is None else ', '.join(one.models) or 'none'}")
    say(f"priority  {one.priority}")
    for limit in LIMITS:
        most = getattr(one, limit)
        if most is not None:
            now = used.get(limit)
            words = limit.replace("_", " ")
            say(f"limit     {'-' if now is None else now} of {most} {words}")
    if use is not None and use["over"]:
        say("          over its limits: a request was refused within the last minute")


def remove(
    key: KeyId,
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


def _limits(limits: Sequence[str | None], priority: int | None) -> dict[str, Any]:
    """Return what is said of limits and priority, `none` as null."""
    asked: dict[str, Any] = {}
    for name, said in zip(LIMITS, limits, strict=True):
        if said is not None:
            asked[name] = None if said == NONE else _number(name, said)
    if priority is not None:
        asked["priority"] = priority
    return asked


def _number(name: str, said: str) -> int:
    try:
        number = int(said.replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        option = "--" + name.replace("_", "-")
        raise Usage(f"{option}: {said!r} is neither a number of at least 1 nor {NONE}")
    return number


def _note_unknown(models: list[str] | None) -> None:
    """Say which of the models nobody serves yet: a name may be misspelt."""
    if models:
        there = {one["model"]["name"] for one in session.connect().get("/models")}
        for name in sorted(set(models) - there):
            note(f"no model {name!r} is in the catalog yet")
