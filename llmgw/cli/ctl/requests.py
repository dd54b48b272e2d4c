"""`llmgw ctl requests`: what is in flight at the gateways, and ending some of it."""

from typing import Annotated, Any

import typer

from llmgw.base.errors import NotFound, PartlyDone, Usage
from llmgw.base.units import counted, show_seconds
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Watch, Yes
from llmgw.cli.output import (
    Column,
    agreed,
    fields,
    note,
    print_data,
    print_rows,
    printable,
    say,
    table,
)
from llmgw.model.live import MOST, STATES, LiveRequest, RequestShown

HERE = "llmgw.cli.ctl.requests"
SHOWN = 200
SHOWN_MOST = 5
"""Requests that are named one by one in the question before they are ended."""

ENTRIES = {
    "list": Entry(f"{HERE}:list_requests", "List requests in flight, the oldest first."),
    "show": Entry(f"{HERE}:show_request", "Show all that is known of a request in flight."),
    "cancel": Entry(f"{HERE}:cancel", "End requests: their clients are told, their use is booked."),
}

app = lazy_app(ENTRIES, "List requests in flight, show one, or end some.")

Key = Annotated[str | None, typer.Option("--key", "-k", help="Of this key: its id or name.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="That this model serves.")]
Replica = Annotated[str | None, typer.Option("--replica", help="That this replica has.")]
Node = Annotated[str | None, typer.Option("--node", help="That this node has.")]
State = Annotated[
    str | None, typer.Option("--state", help="queued, connecting, prefill or streaming.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST, help="At most so many.")]
Newest = Annotated[bool, typer.Option("--newest", help="The newest first, not the oldest.")]


@app.callback(invoke_without_command=True, no_args_is_help=False)
def requests(
    ctx: typer.Context,
    key: Key = None,
    model: Model = None,
    replica: Replica = None,
    node: Node = None,
    state: State = None,
    limit: Limit = SHOWN,
    newest: Newest = False,
    output: Output = Format.TABLE,
    watch: Watch = False,
) -> None:
    """List requests in flight when no command is named."""
    if ctx.invoked_subcommand is None:
        list_requests(key, model, replica, node, state, limit, newest, output, watch)


COLUMNS: tuple[Column[LiveRequest], ...] = (
    Column("REQUEST", lambda r: r.id),
    Column("KEY", lambda r: r.key_name or r.key),
    Column("MODEL", lambda r: r.model),
    Column("STATE", lambda r: r.state if r.place is None else f"{r.state} {r.place}"),
    Column("AGE", lambda r: show_seconds(r.age), right=True),
    Column("TOKENS", lambda r: show.text(r.tokens), right=True),
    Column("REPLICA", lambda r: show.text(r.replica)),
    Column("NODE", lambda r: show.text(r.node), wide=True),
    Column("CLIENT", lambda r: show.text(r.client)),
    Column("ASKED", lambda r: show.text(r.asked), wide=True),
    Column("STREAM", lambda r: "yes" if r.streams else "no", wide=True),
    Column("PATH", lambda r: r.path, wide=True),
    Column("KEY ID", lambda r: r.key, wide=True),
)


def list_requests(
    key: Key = None,
    model: Model = None,
    replica: Replica = None,
    node: Node = None,
    state: State = None,
    limit: Limit = SHOWN,
    newest: Newest = False,
    output: Output = Format.TABLE,
    watch: Watch = False,
) -> None:
    """List requests in flight at the gateways, the oldest first."""
    query: dict[str, Any] = {"key": key, "model": model, "replica": replica, "node": node}
    query |= {"state": _state(state), "limit": limit, "newest": "true" if newest else None}
    if watch:
        from llmgw.cli.watching import poll

        wide = output is Format.WIDE
        poll(
            lambda: session.connect().get("/requests", query),
            lambda answer: [
                *table(_read(answer), COLUMNS, wide=wide),
                *map(printable, _notes(answer)),
            ],
            output,
        )
        return
    answer = session.connect().get("/requests", query)
    print_rows(
        _read(answer),
        COLUMNS,
        output,
        name=lambda one: one.id,
        data=answer,
        empty="no request is in flight",
    )
    for words in _notes(answer):
        note(words)


def show_request(
    request: Annotated[str, typer.Argument(metavar="ID", help="As `ctl requests` lists it.")],
    output: Output = Format.TABLE,
) -> None:
    """Show all that is known of a request in flight."""
    answer = session.connect().get("/requests", {"ids": request, "limit": 1})
    found = session.typed(answer["requests"], tuple[RequestShown, ...], "requests")
    if not found:
        away = "; ".join(_notes(answer))
        raise NotFound(
            f"no request {request!r} is in flight: it ended, or there was none",
            hint=away or "list them: llmgw ctl requests",
        )
    one = found[0]
    if output in (Format.JSON, Format.YAML):
        print_data(answer["requests"][0], output)
        return
    if output is Format.NAME:
        say(one.id)
        return
    place = "" if one.place is None else f", at place {one.place}"
    told = (
        ("request", one.id),
        ("key", f"{one.key_name} ({one.key})" if one.key_name else one.key),
        ("model", one.model if one.asked is None else f"{one.model}, asked for as {one.asked}"),
        ("path", f"{one.path}{', streamed' if one.streams else ''}"),
        ("state", f"{one.state}{place}, for {show_seconds(one.age)}"),
        ("tokens", "" if one.tokens is None else f"about {one.tokens}"),
        ("replica", one.replica or "none yet"),
        ("node", one.node or ""),
        ("gateway", one.gateway),
        ("client", one.client or ""),
    )
    for line in fields(told):
        print(line)


def cancel(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="As `ctl requests` lists them.")
    ] = None,
    key: Key = None,
    model: Model = None,
    replica: Replica = None,
    node: Node = None,
    state: State = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """End requests in flight: those that are named, or all of a key, model, replica or node.

    Each client gets an error with the code `cancelled_by_operator`; what was produced is booked.
    """
    query = {"key": key, "model": model, "replica": replica, "node": node, "state": _state(state)}
    chosen = {name: value for name, value in query.items() if value is not None}
    if ids and len(ids) > MOST:
        raise Usage(f"at most {MOST} requests are ended at once, not {len(ids)}")
    if ids and chosen:
        raise Usage("name requests, or say whose they are: not both")
    if not ids and not chosen:
        raise Usage("which requests?", hint="llmgw ctl requests cancel ID, or --key KEY")
    found = _wanted(ids, chosen)
    if not agreed(_question(found), _name(found, chosen), yes=yes, dry_run=dry_run):
        return
    asked = {"ids": [one.id for one in found]}
    done = session.connect().post("/requests/cancel", asked)
    say(f"{counted(len(done['cancelled']), 'request')} cancelled")
    for one in done["silent"]:
        note(f"gateway {one['gateway']}: {one['words']}")
    if done["gone"]:
        words = f"{counted(len(done['gone']), 'request')} ended meanwhile, or could not be found"
        if not done["cancelled"] or done["silent"]:
            raise PartlyDone(words, hint="look again: llmgw ctl requests")
        note(words)


def _state(name: str | None) -> str | None:
    """Return a state that there is, or None where none was named."""
    if name is not None and name not in STATES:
        raise Usage(f"--state: {name!r} is none of {', '.join(STATES)}")
    return name


def _wanted(ids: list[str] | None, chosen: dict[str, str]) -> list[LiveRequest]:
    """Return the requests that are meant.

    Raises:
        NotFound: none is in flight.
        Usage: they are more than are ended at once.
    """
    asked = {**chosen, "ids": tuple(ids) if ids else None, "limit": MOST}
    answer = session.connect().get("/requests", asked)
    for words in _notes({**answer, "matching": 0}):
        note(words)
    found = _read(answer)
    if ids:
        there = {one.id for one in found}
        missing = [one for one in ids if one not in there]
        if missing:
            raise NotFound(
                f"no request {missing[0]!r} is in flight: it ended, or there was none",
                hint="list them: llmgw ctl requests",
            )
    elif answer["matching"] > len(found):
        note(f"{answer['matching']} are in flight: the oldest {len(found)} are ended at once")
    if not found:
        raise NotFound("no such request is in flight", hint="list them: llmgw ctl requests")
    return found


def _question(found: list[LiveRequest]) -> str:
    named = "; ".join(_words(one) for one in found[:SHOWN_MOST])
    more = f"; and {len(found) - SHOWN_MOST} more" if len(found) > SHOWN_MOST else ""
    return (
        f"{counted(len(found), 'request')} will be ended: {named}{more}; clients get an error, "
        "what was produced is booked"
    )


def _words(one: LiveRequest) -> str:
    tokens = "" if one.tokens is None else f", {counted(one.tokens, 'token')}"
    whose = one.key_name or one.key
    return f"{one.id} of {whose} on {one.model}, {one.state} for {show_seconds(one.age)}{tokens}"


def _name(found: list[LiveRequest], chosen: dict[str, str]) -> str:
    """Return what has to be typed: whose they are, the one's id, or how many."""
    for value in chosen.values():
        return value
    return found[0].id if len(found) == 1 else str(len(found))


def _read(answer: dict[str, Any]) -> list[LiveRequest]:
    return [session.typed(one, LiveRequest, "requests") for one in answer["requests"]]


def _notes(answer: dict[str, Any]) -> list[str]:
    """Return what the list does not have, in words."""
    told = [f"gateway {one['gateway']}: {one['words']}" for one in answer["silent"]]
    if answer["matching"] > len(answer["requests"]):
        told.insert(0, f"{len(answer['requests'])} of {answer['matching']} are shown")
    return told
