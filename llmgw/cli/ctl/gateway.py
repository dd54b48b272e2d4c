"""`llmgw ctl gateway`: let one join, see what it is, have its workers restarted."""

from shlex import quote
from typing import Annotated

import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session, show
from llmgw.cli.ctl.gateways import gateways as listed
from llmgw.cli.ctl.node import print_token
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output
from llmgw.cli.output import fields, note, print_data, say
from llmgw.model.gateway import Gateway, WorkerStart

HERE = "llmgw.cli.ctl.gateway"

ENTRIES = {
    "list": Entry(f"{HERE}:list_all", "List gateways: `ctl gateways` does the same."),
    "show": Entry(f"{HERE}:show_one", "Show one gateway: `ctl gateway NAME` does the same."),
    "token": Entry(f"{HERE}:token", "Make a one-time token with which a gateway joins."),
    "restart": Entry(f"{HERE}:restart", "Replace its workers; no connection is reset."),
}

app = lazy_app(ENTRIES, "Let a gateway join, show it, restart its workers.", fallback="show")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The gateway's id.")]


def list_all(output: Output = Format.TABLE) -> None:
    """List gateways: what users' requests go through."""
    listed(output)


def show_one(name: Name, output: Output = Format.TABLE) -> None:
    """Show one gateway, and when each of its workers began."""
    seen = _one(name)
    if output in (Format.JSON, Format.YAML):
        print_data(seen, output)
        return
    if output is Format.NAME:
        say(seen.id)
        return
    now = session.now()
    pairs = [
        ("gateway", seen.id),
        ("state", f"{'connected' if seen.connected else 'away'} since {_ago(seen.since, now)}"),
        ("url", show.text(seen.url)),
        ("version", show.text(seen.version)),
        ("peer", show.text(seen.peer)),
        ("certificate", _ends(seen.certificate_ends, now)),
        ("workers", show.text(seen.workers)),
    ]
    pairs += [(f"worker {one.worker}", f"began {_ago(one.began, now)}") for one in _started(seen)]
    for line in fields(pairs):
        say(line)


def token(name: Name, output: Output = Format.TABLE) -> None:
    """Make a one-time token with which a gateway of that name joins."""
    print_token("gateway", name, "gateway", output)


def restart(name: Name, dry_run: DryRun = False, output: Output = Format.TABLE) -> None:
    """Replace a gateway's workers by new ones, one after the other.

    Replies go on, and no connection is refused or reset: nothing has to be confirmed. As data it
    prints the gateway as it was before.
    """
    seen = _one(name)
    began = ", ".join(_ago(one.began, session.now()) for one in _started(seen))
    words = f"{name}: {show.count(seen.workers or 0, 'worker')}"
    words += f", begun {began}" if began else ""
    if not dry_run:
        session.connect().post(f"/gateways/{name}/restart", None)
    if output in (Format.JSON, Format.YAML):
        print_data(seen, output)
    elif dry_run:
        note(f"{words}, will be replaced one after the other; nothing was changed")
    elif output is Format.NAME:
        say(seen.id)
    else:
        say(f"{words}: they are replaced one after the other")
        note(f"see when each began: llmgw ctl gateway show {quote(name)}")


def _one(name: str) -> Gateway:
    found = session.get("/gateways", tuple[Gateway, ...])
    for one in found:
        if one.id == name:
            return one
    raise NotFound(f"no gateway {name!r}", hint="list them: llmgw ctl gateways")


def _started(seen: Gateway) -> list[WorkerStart]:
    return sorted(seen.started or (), key=lambda one: one.worker)


def _ago(at: float | None, now: float) -> str:
    told = show.age(at, now)
    return told if at is None else f"{told} ago"


def _ends(at: float | None, now: float) -> str:
    return show.text(None) if at is None else f"ends in {show.age(now, at)}"
