"""`llmgw simulate`: what happens to this fleet when a node, a leaf or half of it goes."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from llmgw.base.errors import LlmgwError, NotFound, Unreadable, Usage
from llmgw.cli import session, show
from llmgw.cli.modelfile import unsound
from llmgw.cli.options import Format, Output
from llmgw.cli.output import Column, note, print_data, print_rows, say

if TYPE_CHECKING:
    from llmgw.plan.whatif import Snapshot, WhatIf


def simulate(
    lose: Annotated[
        list[str] | None, typer.Option("--lose", metavar="NODE", help="A node that goes; again.")
    ] = None,
    leaf: Annotated[str, typer.Option("--leaf", help="All nodes on that leaf switch go.")] = "",
    half: Annotated[bool, typer.Option("--half", help="Every second node goes.")] = False,
    each: Annotated[
        bool, typer.Option("--each", help="Each node alone: a line for each. This is the default.")
    ] = False,
    from_snapshot: Annotated[
        str, typer.Option(help="A file that --save wrote; - is standard input.")
    ] = "",
    save: Annotated[str, typer.Option(help="Write the fleet to a file, and do nothing else.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Say what is placed anew, what gives way, what is served no more; change nothing."""
    text = _read(from_snapshot) if from_snapshot else None
    if save:
        raw = session.connect().get("/snapshot") if text is None else msgspec.json.decode(text)
        _write(save, msgspec.json.encode(raw))
        note(f"{save}: the fleet as it is now")
        return
    whatif = import_module("llmgw.plan.whatif")
    snapshot = _snapshot(text, whatif.Snapshot)
    names = [room.node.id for room in snapshot.observed.nodes]
    gone = _gone(snapshot, names, lose or [], leaf, half=half)
    if each and gone:
        raise Usage("--each takes every node alone", hint="leave out --lose, --leaf and --half")
    if gone:
        _one(whatif.what_if(snapshot, gone), output)
        return
    if not names:
        raise NotFound("there are no nodes")
    answers = [whatif.what_if(snapshot, [name]) for name in names]
    print_rows(answers, COLUMNS, output, name=lambda one: one.lost[0])


COLUMNS: "tuple[Column[WhatIf], ...]" = (
    Column("NODE", lambda w: w.lost[0]),
    Column("LOSES", lambda w: str(sum(m.before - m.after for m in w.models)), right=True),
    Column("ANEW", lambda w: str(len(w.starts)), right=True),
    Column("GIVE WAY", lambda w: str(len(w.gives_way)), right=True),
    Column("WHAT HAPPENS", lambda w: w.words.partition("; ")[2]),
)


def _one(answer: "WhatIf", output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    say(answer.words)
    for one in answer.models:
        before = show.count(one.before, "replica")
        say(f"  {one.model}: {before}, {one.after} at once, {one.end} in the end")
    for step in answer.starts:
        nodes = ", ".join(shard.node for shard in step.shards)
        say(f"  start {step.model} on {nodes}: {step.words}")
    for replica, words in answer.gives_way:
        say(f"  gives way {replica}: {words}")
    for refusal in answer.refusals:
        say(f"  not placed {refusal.model} ({refusal.profile}): {refusal.words}")


def _gone(
    snapshot: "Snapshot", names: list[str], lose: list[str], leaf: str, *, half: bool
) -> tuple[str, ...]:
    """Return the nodes that go.

    Raises:
        NotFound: no such node, or no node is known to be on that leaf.
    """
    for name in lose:
        if name not in names:
            raise NotFound(f"no node {name!r}", hint=f"nodes are {', '.join(names[:10])}")
    found = dict.fromkeys(lose)
    if leaf:
        there = [
            room.node.id
            for room in snapshot.observed.nodes
            if any(cable.leaf == leaf for cable in room.cables)
        ]
        if not there:
            raise NotFound(
                f"no node is known to be on leaf {leaf!r}",
                hint="name the nodes with --lose: the map of a fabric says where they are plugged",
            )
        found.update(dict.fromkeys(there))
    if half:
        found.update(dict.fromkeys(names[::2]))
    return tuple(found)


def _snapshot(text: bytes | None, shape: "type[Snapshot]") -> "Snapshot":
    if text is None:
        return session.get("/snapshot", shape)
    try:
        snapshot = msgspec.json.decode(text, type=shape)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(
            f"the snapshot can't be read: {error}",
            hint="write one with this version: llmgw simulate --save FILE",
        ) from error
    if problems := import_module("llmgw.plan.whatif_check").check_snapshot(snapshot):
        raise unsound("snapshot", problems)
    return snapshot


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"{file}: no such file") from error
    except OSError as error:
        raise Unreadable(f"{file}: can't be read: {error.strerror}") from error


def _write(file: str, data: bytes) -> None:
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise LlmgwError(f"{file}: can't be written: {error.strerror}") from error
