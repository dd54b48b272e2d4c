"""`llmgw ctl node`: show one, let one join, cordon, drain, remove."""

from typing import Annotated, Any

import typer

from llmgw.base.units import show_bytes, show_seconds
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Yes
from llmgw.cli.output import confirm, fields, note, print_data, say
from llmgw.model.node import CORDONED, DRAINING, Filesystem, Heartbeat, Node, ProbeState, Sample
from llmgw.model.replica import Replica

HERE = "llmgw.cli.ctl.node"

ENTRIES = {
    "show": Entry(f"{HERE}:show_one", "Show one node: `ctl node NODE` does the same."),
    "token": Entry(f"{HERE}:token", "Make a one-time token with which a machine joins."),
    "cordon": Entry(f"{HERE}:cordon", "Place nothing new on a node."),
    "drain": Entry(f"{HERE}:drain", "Cordon a node and move its replicas away."),
    "uncordon": Entry(f"{HERE}:uncordon", "Let a node be used again."),
    "rm": Entry(f"{HERE}:remove", "Remove a node: its certificate no longer connects."),
}

app = lazy_app(ENTRIES, "Show, join, cordon or remove a node.", fallback="show")

Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's id: its host name.")]


def show_one(node: Name, output: Output = Format.TABLE) -> None:
    """Show one node: what it has, how it is, what runs on it."""
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
    for line in _lines(seen, sample, here):
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
    here = [r for r in session.get("/replicas", tuple[Replica, ...]) if _on(r, node)]
    words = f"{node}: {show.count(len(here), 'replica')} will move"
    if here:
        words += f": {', '.join(r.id for r in here)}"
    if dry_run:
        note(f"{words}; nothing was changed")
        return
    if here:
        confirm(words, node, yes=yes)
    _wish(node, DRAINING)


def uncordon(node: Name) -> None:
    """Let a node be used again."""
    _wish(node, None)


def remove(node: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove a node: its certificate no longer connects, its stream is cut."""
    here = [r for r in session.get("/replicas", tuple[Replica, ...]) if _on(r, node)]
    words = f"{node}: its certificate will be denied"
    if here:
        words += (
            f"; {show.count(len(here), 'replica')} on it will not be used any more, and the "
            "engines run on until its agent is told otherwise"
        )
    if dry_run:
        note(f"{words}; nothing was changed")
        return
    confirm(words, node, yes=yes)
    session.connect().delete(f"/nodes/{node}")
    print(f"{node} is removed")


def print_token(role: str, subject: str, command: str, output: Format) -> None:
    """Print a one-time token, and on stderr the command that takes it."""
    answer = session.connect().post("/join-tokens", {"role": role, "subject": subject})
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    print(answer["token"])
    minutes = round((answer["expires"] - session.now()) / 60)
    note(
        f"on {subject}, within {show.count(minutes, 'minute')}: "
        f"llmgw {command} --join - --server HOST:7442"
    )
    note("it reads the token from standard input; arguments are seen by other users")


def _wish(node: str, wish: str | None) -> None:
    answer = session.connect().post(f"/nodes/{node}/wish", {"wish": wish})
    seen = session.typed(answer, Node, "node")
    print(f"{seen.id} is {seen.wish or 'free to be used'}")


def _on(replica: Replica, node: str) -> bool:
    return any(shard.node == node for shard in replica.shards)


def _lines(node: Node, sample: Sample | None, replicas: list[Replica]) -> list[str]:
    now = session.now()
    host = node.inventory.host
    beat = sample.heartbeat if sample else None
    lines = fields(
        [
            ("node", node.id),
            ("state", f"{show.node_state(node)} for {show.age(node.since, now)}"),
            ("health", "; ".join(node.health)),
            ("address", node.address or ""),
            ("agent", node.agent_version or ""),
            ("labels", ", ".join(f"{k}={v}" for k, v in node.labels.items())),
            ("system", " ".join(t for t in (host.os, host.kernel, host.architecture) if t))
            if host
            else ("system", ""),
            ("cpu", f"{show.text(host.cpus)} x {show.text(host.cpu_model)}" if host else ""),
            ("cpu use", show.percent(beat.cpu_percent if beat else None)),
            ("memory", show.memory(node, sample)),
            ("devices", show.device_counts(node.inventory.devices)),
            ("certificate", _ends(node.certificate_ends, now)),
        ]
    )
    lines += _section("disk", [_disk(f) for f in node.inventory.filesystems or ()])
    lines += _section("engine", [show.engine(e) for e in node.inventory.engines or ()])
    lines += _section("replica", [_replica(r) for r in replicas])
    lines += _section("warning", [f"{w.subject}: {w.words}" for w in node.inventory.warnings or ()])
    if beat is not None:
        lines += _section("probe", [_probe(p) for p in beat.probes or ()])
    return lines


def _section(name: str, values: list[str]) -> list[str]:
    return fields([(f"{name:<11}", value) for value in values])


def _disk(seen: Filesystem) -> str:
    kind = "shared" if seen.shared else "local"
    free, total = show_bytes(seen.free_bytes), show_bytes(seen.total_bytes)
    return f"{seen.mount}: {free} free of {total}, {seen.type or 'unknown type'}, {kind}"


def _replica(seen: Replica) -> str:
    words = show.replica_words(seen)
    return f"{seen.id}: {show.text(seen.state)} on {show.back_end(seen)}" + (
        f", {words}" if words else ""
    )


def _probe(seen: ProbeState) -> str:
    return f"{seen.name}: {seen.error}" if seen.error else f"{seen.name}: {_old(seen.age)}"


def _old(seconds: float | None) -> str:
    return "never read" if seconds is None else f"{show_seconds(seconds)} old"


def _ends(ends: float | None, now: float) -> str:
    return "" if ends is None else f"ends in {show_seconds(max(0.0, ends - now))}"
