"""`llmgw ctl node`: show one, let one join, cordon, drain, remove."""

from typing import Annotated, Any

import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session, show
from llmgw.cli.ctl import ends
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Yes
from llmgw.cli.output import agreed, confirm, note, print_data, say
from llmgw.model.node import CORDONED, DRAINING, Heartbeat, Node, Sample
from llmgw.model.replica import Replica
from llmgw.model.trouble import MASS_LOSS

HERE = "llmgw.cli.ctl.node"

ENTRIES = {
    "show": Entry(f"{HERE}:show_one", "Show one node: `ctl node NODE` does the same."),
    "token": Entry(f"{HERE}:token", "Make a one-time token with which a machine joins."),
    "cordon": Entry(f"{HERE}:cordon", "Place nothing new on a node."),
    "drain": Entry(f"{HERE}:drain", "Cordon a node and move its replicas away."),
    "uncordon": Entry(f"{HERE}:uncordon", "Let a node be used again."),
    "accept-loss": Entry(f"{HERE}:accept_loss", "Take nodes that were lost together for lost."),
    "rm": Entry(f"{HERE}:remove", "Remove a node: its certificate no longer connects."),
}

app = lazy_app(ENTRIES, "Show, join, cordon or remove a node.", fallback="show")

Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's id: its host name.")]


def show_one(
    node: Name,
    output: Output = Format.TABLE,
    history: Annotated[
        bool, typer.Option("--history", help="How it was, as charts or as JSON.")
    ] = False,
    series: Annotated[
        str, typer.Option("--series", help="With --history: which ones, `busy,power`; all.")
    ] = "",
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, help="With --history: how far back.")
    ] = 60,
) -> None:
    """Show one node: what it has, how it is and was, what runs on it."""
    if history:
        from llmgw.cli.ctl import node_past

        node_past.show(node, output, series, minutes)
        return
    answer: dict[str, Any] = session.connect().get(f"/nodes/{node}")
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    seen = session.typed(answer, Node, "node")
    if output is Format.NAME:
        say(seen.id)
        return
    sample = None
    if answer.get("sample") is not None:
        beat = session.typed(answer["sample"], Heartbeat, "sample")
        sample = Sample(id=seen.id, at=answer.get("sampled_at") or session.now(), heartbeat=beat)
    here = [r for r in session.get("/replicas", tuple[Replica, ...]) if _on(r, seen.id)]
    from llmgw.cli.ctl import node_page

    for line in node_page.page(seen, sample, here, session.now()):
        say(line)


def token(node: Name, output: Output = Format.TABLE) -> None:
    """Make a one-time token with which the machine of that name joins."""
    print_token("node", node, "agent", output)


def cordon(node: Name) -> None:
    """Place nothing new on a node."""
    _wish(node, CORDONED)


def drain(node: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Cordon a node and move its replicas away."""
    session.connect().get(f"/nodes/{node}")
    here = [one for one in ends.runs() if _on(one, node)]
    words = f"{node}: {ends.ending_words(here, 'will move')}"
    if here:
        words += "; each serves until another does in its place"
    if dry_run:
        note(f"{words}; nothing was changed")
        return
    if here:
        confirm(words, node, yes=yes)
    _wish(node, DRAINING)


def uncordon(node: Name) -> None:
    """Let a node be used again."""
    _wish(node, None)


def accept_loss(yes: Yes = False, dry_run: DryRun = False) -> None:
    """Take nodes that were lost together for lost: what they ran is placed anew.

    Many nodes lost within seconds are taken for a fault of the control plane, and nothing is placed
    anew for them until they are back; this says that they are really gone.
    """
    status: dict[str, Any] = session.connect().get("/status")
    lost = [one for one in status["problems"] if one.get("subject") == MASS_LOSS]
    if not lost:
        say("no nodes were lost together")
        return
    words = str(lost[0]["words"]).partition(";")[0]
    if dry_run:
        note(f"{words}; nothing was changed")
        return
    confirm(f"{words}; what they ran will be placed anew", str(status["cluster"]), yes=yes)
    session.connect().post("/mass-loss/accept", None)
    say("they count as lost: what they ran is placed anew")


def remove(node: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove a node: its certificate no longer connects, its stream is cut."""
    try:
        session.connect().get(f"/nodes/{node}")
    except NotFound:
        # One that joined and never registered is known by its certificate alone.
        if dry_run or not yes:
            raise
    here = [one for one in ends.runs(leaving=True) if _on(one, node)]
    words = f"{node}: its certificate will be denied"
    if here:
        words += (
            f"; {ends.ending_words(here, 'will not be used any more')}; "
            "the engines run on until its agent is told otherwise"
        )
    if not agreed(words, node, yes=yes, dry_run=dry_run):
        return
    session.connect().delete(f"/nodes/{node}")
    say(f"{node} is removed")


def print_token(role: str, subject: str, command: str, output: Format) -> None:
    """Print a one-time token, and on stderr the command that takes it."""
    answer = session.connect().post("/join-tokens", {"role": role, "subject": subject})
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    say(answer["token"])
    minutes = round((answer["expires"] - session.now()) / 60)
    note(
        f"on {subject}, within {show.count(minutes, 'minute')}: "
        f"llmgw {command} --join - --server HOST:7442"
    )
    note("it reads the token from standard input; arguments are seen by other users")


def _wish(node: str, wish: str | None) -> None:
    answer = session.connect().post(f"/nodes/{node}/wish", {"wish": wish})
    seen = session.typed(answer, Node, "node")
    say(f"{seen.id} is {seen.wish or 'free to be used'}")


def _on(replica: Replica, node: str) -> bool:
    return any(shard.node == node for shard in replica.shards)
