"""Where a node's facts come from: its probes, and its sensors."""

from llmgw.model.node import ProbeState, Sensor
from llmgw.model.probes import by_trouble, probe_fact
from llmgw_tui.draw import measures
from llmgw_tui.draw.page import PageLine, Section
from llmgw_tui.draw.seen import NodeSeen
from llmgw_tui.draw.states import IDLE, UNKNOWN, WARN, State
from llmgw_tui.draw.text import Piece, clean, fit, said, wrap


def probes(seen: NodeSeen, width: int) -> Section | None:
    """Return every source of facts, those that fail first; None of a node that is not heard."""
    beat = seen.beat
    if beat is None or not beat.probes:
        return None
    lines: list[PageLine] = []
    for probe in by_trouble(beat.probes):
        lines += _probe(probe, width)
    failing = sum(probe.error is not None for probe in beat.probes)
    notes = f"{failing} of {len(beat.probes)} fail" if failing else f"{len(beat.probes)} in order"
    return Section("Probes", tuple(lines), said((notes, WARN if failing else "dim")))


def sensors(seen: NodeSeen) -> Section | None:
    """Return what the machine's own sensors say, heat and power of one part in one line."""
    parts: dict[str, list[Sensor]] = {}
    for sensor in (seen.beat.sensors if seen.beat else None) or ():
        parts.setdefault(clean(sensor.label), []).append(sensor)
    lines = tuple(_part(label, found) for label, found in parts.items())
    return Section("Sensors", lines) if lines else None


def _part(label: str, found: list[Sensor]) -> PageLine:
    pieces: list[Piece] = [*fit(said((label, "dim")), 24)]
    for sensor in found:
        unit = {"temperature": "°C", "power": " W"}.get(sensor.kind, "")
        value = measures.number(sensor.value, unit)
        pieces += fit(said((value, "absent" if sensor.value is None else "text")), 8, "right")
    return PageLine(tuple(pieces))


def _probe(probe: ProbeState, width: int) -> list[PageLine]:
    fact = probe_fact(probe, measures.age)
    state = State("fails", WARN) if fact.wrong else State("fine", IDLE)
    if not fact.wrong and probe.age is None:
        state = State("no data", UNKNOWN)
    head = (*fit(said((clean(probe.name), "strong")), 16), *fit(state.pieces, 10))
    # The state has said already that it fails.
    words = clean(fact.words).removeprefix("fails").lstrip(" :")
    first, *rest = wrap(words, max(8, width - 27), most=4) or ("-",)
    lines = [PageLine((*head, *said((first, WARN if fact.wrong else "dim"))))]
    lines += [PageLine(said(" " * 26, (line, WARN))) for line in rest]
    return lines
