"""`--watch`: one list, then one open watch; a terminal is redrawn, a pipe gets a line a change.

With `-o json` every change is a line: `{"topic", "id", "record"}`, the record null when it is gone.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from llmgw.base.errors import Unreachable, Usage
from llmgw.cli import session
from llmgw.cli.options import Format
from llmgw.cli.output import json_line, note
from llmgw.client.interface import LIVE, Connection, WatchBatch

CLEAR = "\x1b[H\x1b[J"
POLL = 2.0
"""Seconds between two questions about what no topic tells."""

State = dict[str, dict[str, Any]]
"""The records of each topic by id, as decoded JSON."""


def follow(
    topics: Sequence[str],
    show: Callable[[State], list[str]],
    output: Format = Format.TABLE,
) -> None:
    """Print what `show` makes of the topics' records, again with each change, until interrupted.

    On a terminal the whole is drawn anew; elsewhere only lines that were not there before are
    printed, so that a log of it reads like one.

    Raises:
        Usage: the form can't be followed.
    """
    if output in (Format.YAML, Format.NAME):
        raise Usage(
            f"--watch does not print {output.value}", hint="-o json prints a line for each change"
        )
    asked = _follow(topics, _changes if output is Format.JSON else _Screen(show).lines)
    try:
        asyncio.run(asked)
    except KeyboardInterrupt:
        sys.exit(130)


async def _follow(topics: Sequence[str], told: Callable[[State, State], str]) -> None:
    state: State = {topic: {} for topic in topics}
    connection: Connection | None = None
    async with session.connect_for_long() as client:
        async for batch in client.watch(topics):
            tell_connection(batch.connection, connection)
            connection = batch.connection
            if not batch.listing and not batch.changes:
                continue
            before = {topic: dict(records) for topic, records in state.items()}
            apply(state, batch)
            sys.stdout.write(told(before, state))
            sys.stdout.flush()


def follow_asked(
    topics: Sequence[str],
    fetch: Callable[[], list[Any]],
    show: Callable[[list[Any]], list[str]],
    output: Format = Format.TABLE,
) -> None:
    """Print what `show` makes of what is fetched, again with each change of the topics.

    How many requests a replica has in flight changes with each of them, so that no topic tells it.
    On a terminal and with `-o json` it is fetched each `POLL` seconds too, and is no older.

    Raises:
        Usage: the form can't be followed.
    """
    if output in (Format.YAML, Format.NAME):
        raise Usage(
            f"--watch does not print {output.value}", hint="-o json prints a line for each change"
        )
    as_json, seen = output is Format.JSON, State()
    screen = _Screen(lambda state: show(list(state[topics[0]].values())))

    def told() -> str:
        before = dict(seen)
        seen[topics[0]] = {one["id"]: one for one in fetch()}
        return _changes(before, seen) if as_json else screen.lines(before, seen)

    again = POLL if as_json or sys.stdout.isatty() else None
    try:
        asyncio.run(_follow_asked(topics, told, again))
    except KeyboardInterrupt:
        sys.exit(130)


async def _follow_asked(
    topics: Sequence[str], told: Callable[[], str], again: float | None
) -> None:
    connection: Connection | None = None
    async with session.connect_for_long() as client:
        batches = aiter(client.watch(topics))
        while True:
            coming = asyncio.ensure_future(anext(batches, None))
            try:
                while not (await asyncio.wait({coming}, timeout=again))[0]:
                    await _write(told)
            finally:
                coming.cancel()
            batch = coming.result()
            if batch is None:
                return
            tell_connection(batch.connection, connection)
            connection = batch.connection
            if batch.listing or batch.changes:
                await _write(told)


async def _write(told: Callable[[], str]) -> None:
    try:
        text = await asyncio.to_thread(told)
    except Unreachable:
        return  # the watch tells it, and is tried again
    sys.stdout.write(text)
    sys.stdout.flush()


class _Screen:
    """What a person sees: all of it on a terminal, elsewhere the lines that are new."""

    def __init__(self, show: Callable[[State], list[str]]) -> None:
        self._show = show
        self._before: list[str] = []
        self._clear = CLEAR if sys.stdout.isatty() else ""

    def lines(self, _before: State, state: State) -> str:
        """Return what to write now."""
        before, self._before = self._before, self._show(state)
        if self._before == before:
            return ""
        fresh = [line for line in self._before if self._clear or line not in before]
        return self._clear + "".join(f"{line}\n" for line in fresh)


def _changes(before: State, state: State) -> str:
    """Return a line of JSON for every record that is another than before."""
    lines: list[str] = []
    for topic, records in state.items():
        old = before.get(topic, {})
        for id_ in [*records, *(gone for gone in old if gone not in records)]:
            record = records.get(id_)
            if record != old.get(id_):
                lines.append(json_line({"topic": topic, "id": id_, "record": record}))
    return "".join(f"{line}\n" for line in lines)


def tell_connection(now: Connection, before: Connection | None) -> None:
    """Say on stderr that the control plane is lost, once, and that it is back."""
    state = before.state if before else LIVE
    if now.state != LIVE and state == LIVE:
        note(f"not connected: {now.words or now.state}; trying again")
    elif now.state == LIVE and state != LIVE:
        note("connected")


def apply(state: State, batch: WatchBatch) -> None:
    """Apply a batch of changes to the records."""
    if batch.listing:
        for records in state.values():
            records.clear()
    for change in batch.changes:
        records = state.setdefault(change.topic, {})
        if change.record is None:
            records.pop(change.id, None)
        else:
            records[change.id] = change.record


def poll(
    fetch: Callable[[], Any], show: Callable[[Any], list[str]], output: Format = Format.TABLE
) -> None:
    """Print what `show` makes of what `fetch` returns, again each `POLL` seconds.

    For what no topic is followed of: it is asked for. With `-o json` each answer is a line.

    Raises:
        Usage: the form can't be followed.
    """
    if output in (Format.YAML, Format.NAME):
        raise Usage(
            f"--watch does not print {output.value}", hint="-o json prints a line for each answer"
        )
    screen = _Screen(lambda answer: show(answer["answer"]))
    told = (lambda answer: f"{json_line(answer)}\n") if output is Format.JSON else None
    try:
        asyncio.run(_poll(fetch, told or (lambda answer: screen.lines({}, {"answer": answer}))))
    except KeyboardInterrupt:
        sys.exit(130)


async def _poll(fetch: Callable[[], Any], told: Callable[[Any], str]) -> None:
    lost = False
    while True:
        try:
            answer = await asyncio.to_thread(fetch)
        except Unreachable as error:
            if not lost:
                note(f"not connected: {error.message}; trying again")
            lost = True
        else:
            if lost:
                note("connected")
            lost = False
            sys.stdout.write(told(answer))
            sys.stdout.flush()
        await asyncio.sleep(POLL)
