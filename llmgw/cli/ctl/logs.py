"""`llmgw ctl logs`: read or follow a node's log, or an engine's."""

import sys
from typing import Annotated, Any

import typer

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import json_line, note, print_data


def logs(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")],
    source: Annotated[
        str | None,
        typer.Option("--source", "-s", help="A shard on it (REPLICA/RANK); else the agent."),
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=2000)] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Read or follow the log of a node's agent, or of an engine on it."""
    if follow:
        _follow(node, source, lines, as_json=output is Format.JSON)
        return
    answer: dict[str, Any] = session.connect().get(
        f"/nodes/{node}/logs", {"source": source, "lines": lines}
    )
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    for line in answer["lines"]:
        _print(line)
    if source is None and answer["sources"] and sys.stderr.isatty():
        note(f"also there: {', '.join(answer['sources'])} (--source)")


def _follow(node: str, source: str | None, lines: int, *, as_json: bool) -> None:
    import asyncio

    try:
        asyncio.run(_print_on(node, source, lines, as_json=as_json))
    except KeyboardInterrupt:
        sys.exit(130)


async def _print_on(node: str, source: str | None, lines: int, *, as_json: bool) -> None:
    async with session.connect_for_long() as client:
        async for batch in client.follow_logs(node, source, lines):
            if as_json:
                print(json_line(batch._asdict()), flush=True)
                continue
            if batch.dropped:
                note(f"({show.count(batch.dropped, 'line')} came too fast to follow)")
            for line in batch.lines:
                _print(line)


def _print(line: str) -> None:
    """Print a line without what could steer the terminal: engines print what they like."""
    clean = "".join(c if c.isprintable() or c == "\t" else "?" for c in line)
    sys.stdout.write(clean + "\n")
    sys.stdout.flush()
