"""`llmgw ctl node NODE --history`: how a node was, as small charts or as JSON."""

import os
import sys
from collections.abc import Mapping
from shutil import get_terminal_size

from llmgw.base import braille
from llmgw.base.errors import Usage
from llmgw.base.units import show_bytes, show_number, show_seconds
from llmgw.cli import session
from llmgw.cli.options import Format
from llmgw.cli.output import ABSENT, note, print_data, say
from llmgw.model.condition import with_cards
from llmgw.model.history import NAMES, NodeHistory, Series
from llmgw.model.node import Heartbeat, Node
from llmgw.model.work import POWER, SM_ACTIVE

COLUMNS = 100
"""Of a line where there is no terminal."""
LEAST, MOST = 10, 120
"""Cells of a chart."""
AXIS, WORDS = 11, 40
"""Cells of what stands before a chart of several rows, and behind one of a single row."""
HEIGHT = 4
"""Rows of a chart of a series that was asked for; without one, each has a single row."""
_UNITS = {"percent": "%", "watts": " W", "celsius": "°C"}
_TOPS = {"percent": 100.0, "celsius": 100.0}
_WORK_OF = {SM_ACTIVE: "SMs active", POWER: "draw of limit"}

Tops = Mapping[tuple[str | None, str], float | None]
"""What a full column stands for, by device and measure, where something says so."""


def show(node: str, output: Format, series: str, minutes: int) -> None:
    """Print how a node was.

    Raises:
        Usage: there is no series of that name.
    """
    names = tuple(name for name in series.split(",") if name)
    for name in names:
        if name not in NAMES:
            raise Usage(
                f"--series: there is no series {name!r}", hint=f"series are {', '.join(NAMES)}"
            )
    client = session.connect()
    told = client.history(node, names, minutes)
    if output in (Format.JSON, Format.YAML):
        print_data(told, output)
        return
    answer = client.get(f"/nodes/{node}")
    seen = session.typed(answer, Node, "node")
    beat = session.typed(answer.get("sample") or {"sequence": 0}, Heartbeat, "sample")
    for line in lines(told, seen, beat, rows=HEIGHT if names else 1, ascii_only=not _unicode()):
        say(line)
    if told.problem:
        note(told.problem)


def lines(
    told: NodeHistory, node: Node, beat: Heartbeat, *, rows: int, ascii_only: bool
) -> list[str]:
    """Return the charts of a history, the node's own first, then device by device.

    Args:
        told: the history.
        node: whose it is: it names the devices.
        beat: its last heartbeat, which says how much there is of memory and power.
        rows: of each chart.
        ascii_only: the terminal can't show braille.
    """
    span = told.step * max([0, *(len(one.values) for one in told.series)])
    found = [f"{node.id}: the last {show_seconds(span)}, a value each {told.step:g} s"]
    names = {one.uuid: one.shown for one in with_cards(node.inventory.devices or ())}
    order = {uuid: index for index, uuid in enumerate(names, 1)}
    series = sorted(told.series, key=lambda one: order.get(one.device or "", 0))
    titles = [_title(one, names) for one in series]
    width = max([0, *map(len, titles)])
    tops = _tops(node, beat)
    last = int(told.until // told.step)
    for one, title in zip(series, titles, strict=True):
        top = tops.get((one.device, one.name))
        if not any(value is not None for value in one.values):
            found.append(f"{title:<{width}}  nothing measured")
        elif rows == 1:
            found.append(_row(one, f"{title:<{width}}", last, top))
        else:
            found += ["", *_chart(one, title, last, top, rows=rows)]
    return [_ascii(line) for line in found] if ascii_only else found


def _row(one: Series, title: str, last: int, top: float | None) -> str:
    width = max(LEAST, min(MOST, _columns() - len(title) - WORDS))
    (plot,) = braille.rows(braille.columns(one.values, last, 2 * width), 1, _top(one, top))
    return f"{title}  {plot}  {_words(one)}"


def _chart(one: Series, title: str, last: int, top: float | None, *, rows: int) -> list[str]:
    width = max(LEAST, min(MOST, _columns() - AXIS))
    full = _top(one, top)
    plot = braille.rows(braille.columns(one.values, last, 2 * width), rows, full)
    labels = [_value(full, one.unit), *[""] * (rows - 2), "0"]
    lines = [f"{label:>{AXIS - 2}} |{row}" for label, row in zip(labels, plot, strict=True)]
    return [f"{title}  {_words(one)}", *lines, f"{'':{AXIS}}{'now':>{width}}"]


def _title(one: Series, names: Mapping[str, str]) -> str:
    made_of = ", ".join(_WORK_OF[source] for source in one.made_of or ())
    name = f"{one.name} ({made_of})" if made_of else one.name
    return name if one.device is None else f"{names.get(one.device, one.device)} {name}"


def _tops(node: Node, beat: Heartbeat) -> Tops:
    host = node.inventory.host
    found: dict[tuple[str | None, str], float | None] = {
        (None, "memory"): beat.memory_bytes or (host.memory_bytes if host else None)
    }
    for device in node.inventory.devices or ():
        found[device.uuid, "memory"] = device.memory_bytes
    for reading in beat.devices or ():
        found[reading.uuid, "power"] = reading.power_limit_watts
        if reading.memory_total_bytes is not None:
            found[reading.uuid, "memory"] = reading.memory_total_bytes
    return found


def _top(one: Series, known: float | None) -> float:
    highest = max(value for value in one.values if value is not None)
    return max(highest, known or _TOPS.get(one.unit, 0.0))


def _words(one: Series) -> str:
    known = [value for value in one.values if value is not None]
    now, least, most = (_value(v, one.unit) for v in (one.values[-1], min(known), max(known)))
    return f"now {now}, min {least}, max {most}"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    if unit == "bytes":
        return show_bytes(value)
    if unit == "load":
        return show_number(value, 2)
    return f"{show_number(value)}{_UNITS.get(unit, '')}"


def _columns() -> int:
    return get_terminal_size((COLUMNS, 24)).columns


def _unicode() -> bool:
    """Say whether braille can be printed."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return encoding == "utf8" and os.environ.get("TERM") != "linux"


def _ascii(line: str) -> str:
    shown = "".join(braille.to_ascii(c) if braille.is_braille(c) else c for c in line)
    return shown.replace("°", " ").encode("ascii", "replace").decode()
