"""Devices of a node, one line each, what is wrong with one below it, and how well all are."""

from collections.abc import Iterator

from llmgw.base.units import show_bytes
from llmgw.model.availability import (
    AWAY,
    CORDONS,
    DRAINS,
    FOREIGN,
    FREE,
    HELD,
    UNHEALTHY,
)
from llmgw.model.condition import Fact, conditions, names_of
from llmgw.model.device import MIG, Device, DeviceSample
from llmgw.model.work import POWER, SM_ACTIVE, WorkSource, work
from llmgw_tui.draw import measures
from llmgw_tui.draw.page import PageLine, Section, Spot, facts
from llmgw_tui.draw.places import REPLICA, Place
from llmgw_tui.draw.seen import NodeSeen, When, device_name
from llmgw_tui.draw.states import ABSENT, DOWN, IDLE, SERVING, UNKNOWN, WARN, State
from llmgw_tui.draw.text import Piece, Pieces, clean, fit, said, width_of, wrap

SHARED = 3
"""Devices of which the same is wrong that are told of it together."""
WORK_OF: dict[WorkSource, str] = {SM_ACTIVE: "SMs active", POWER: "draw of limit"}
_LETTERS: dict[WorkSource, str] = {SM_ACTIVE: "s", POWER: "p"}
WIDE = 110
"""Cells from which busy and work are bars and the class has a column."""


_KINDS = {FREE: IDLE, AWAY: UNKNOWN, UNHEALTHY: DOWN, FOREIGN: WARN, DRAINS: WARN, CORDONS: WARN}


def device_state(device: Device, found: str, instances: int = 0) -> State:
    """Return a device's state; of one that is in use also whether it is unhealthy.

    Args:
        device: it.
        found: whether it can be given out (`model.availability`).
        instances: how many it is cut into; a card that is cut is not given out itself.
    """
    if device.unhealthy and (instances or found == HELD):
        return State(UNHEALTHY, DOWN)
    if instances:
        return State(f"cut in {instances}", ABSENT)
    if found == HELD:
        return State("in use", SERVING)
    if found == FREE and device.unhealthy is None:
        return State("free?", UNKNOWN)
    return State(found, _KINDS.get(found, UNKNOWN))


def section(seen: NodeSeen, when: When, width: int) -> Section | None:
    """Return the devices' section; None when the node has none."""
    devices = seen.devices
    if devices is None:
        return Section("Devices", (PageLine(said(("this node cannot say", "absent"))),))
    if not seen.hardware:
        return None
    held = sum(device.uuid in seen.held for device in devices)
    notes = said((f"{held} of {len(devices)} held{_work_made_of(seen)}", "dim"))
    return Section("Devices", tuple(_lines(seen, when, width)), notes)


def _sources(seen: NodeSeen) -> list[WorkSource]:
    """Return what the work of its devices is made of, each kind once."""
    readings = seen.readings
    found = (readings.get(device.uuid) for device in seen.hardware)
    made = (work(reading) for reading in found if reading is not None)
    return sorted({one.source for one in made if one is not None})


def _work_made_of(seen: NodeSeen) -> str:
    """Return what `work` is in the table; of two kinds each has a letter behind its figures."""
    sources = _sources(seen)
    mark = len(sources) > 1
    said_of = (f"{_LETTERS[one]} " * mark + WORK_OF[one] for one in sources)
    return f"; work: {', '.join(said_of)}" if sources else ""


def _lines(seen: NodeSeen, when: When, width: int) -> Iterator[PageLine]:
    """Yield each device with what is wrong with it, then what is wrong with many alike."""
    wrong: dict[str, list[Device]] = {}
    for device, told in _facts(seen, when):
        for fact in told:
            if fact.wrong:
                wrong.setdefault(fact.words, []).append(device)
    shared = {words: found for words, found in wrong.items() if len(found) >= SHARED}
    yield _head(seen, width)
    for device in seen.hardware:
        yield _line(device, seen, width)
        for words, found in wrong.items():
            if device in found and words not in shared:
                yield from _wrong("", words, width)
    for words, found in shared.items():
        yield from _wrong(f"{names_of(found)}: ", words, width, indent=0)


def health(seen: NodeSeen, when: When, width: int) -> Section | None:
    """Return what is in order, devices that say the same together; None without devices."""
    groups: dict[str, list[Device]] = {}
    for device, told in _facts(seen, when):
        if device.kind == MIG:
            continue
        calm = [fact.words for fact in told if not fact.wrong]
        groups.setdefault(", ".join(calm), []).append(device)
    if not groups:
        return None
    names = {words: clean(names_of(devices)) for words, devices in groups.items()}
    room = min(width // 3, max(width_of(name) for name in names.values()))
    lines: list[PageLine] = []
    for words, name in names.items():
        role = "text" if words else "absent"
        shown = clean(words) or "nothing told of wear and faults"
        lines += facts(name, shown, width, role=role, width=room)
    return Section("Health of devices", tuple(lines))


def _facts(seen: NodeSeen, when: When) -> tuple[tuple[Device, tuple[Fact, ...]], ...]:
    return conditions(seen.node.inventory, seen.beat, now=when.now, ages=measures.age)


def _wrong(names: str, words: str, width: int, indent: int = 6) -> list[PageLine]:
    """Return what is wrong, indented below its device; of several devices at the margin."""
    first, *rest = wrap(clean(f"{names}{words}"), max(8, width - indent - 2), most=3) or ("-",)
    lines = [PageLine(said(" " * indent, ("▲ ", WARN), (first, WARN)))]
    return [*lines, *(PageLine(said(" " * (indent + 2), (line, WARN))) for line in rest)]


def _name_width(seen: NodeSeen) -> int:
    return 6 if all(device.kind != MIG for device in seen.hardware) else 13


def _head(seen: NodeSeen, width: int) -> PageLine:
    pieces: list[Piece] = [Piece(" " * (_name_width(seen) + 12))]
    titles = (
        ("busy".rjust(14), "work".rjust(16), "memory".rjust(28))
        if width >= WIDE
        else ("busy".rjust(5), "work".rjust(6), "memory".rjust(24))
    )
    pieces += [Piece(title, "head") for title in titles]
    if width >= WIDE:
        pieces.append(Piece("  " + "class".ljust(22), "head"))
    pieces.append(Piece("   heat power  ", "head"))
    return PageLine(tuple(pieces))


def _line(device: Device, seen: NodeSeen, width: int) -> PageLine:
    reading = seen.readings.get(device.uuid)
    holder = seen.held.get(device.uuid)
    instances = sum(one.card_uuid == device.uuid for one in seen.hardware)
    indent = "  " if device.kind == MIG else ""
    name = said(indent, (device_name(device), "strong"))
    pieces: list[Piece] = list(fit(name, _name_width(seen)))
    pieces += fit(device_state(device, seen.availability(device), instances).pieces, 12)
    pieces += _use(reading, width, mark=len(_sources(seen)) > 1)
    pieces += _memory(device, reading, 26 if width >= WIDE else 22)
    if width >= WIDE:
        kind = clean(device.device_class or device.name or "-")
        pieces += fit(said("  ", (kind, "dim")), 24)
    pieces += _heat(reading)
    if holder is not None:
        pieces += said(clean(holder))
    spots = (Spot(Place(REPLICA, holder)),) if holder is not None else ()
    return PageLine(tuple(pieces), spots)


def _use(reading: DeviceSample | None, width: int, *, mark: bool) -> Pieces:
    """Return busy and work: the second tells of a device that is busy with next to nothing."""
    done = work(reading) if reading else None
    busy = measures.share_of(reading.busy_percent if reading else None, 100.0)
    share = None if done is None else min(1.0, done.ratio)
    letter = _LETTERS[done.source] if mark and done is not None else ""
    ratio = measures.percent(None if done is None else done.ratio)
    words = [measures.percent(busy), f"{ratio}{letter}"]
    if width >= WIDE:
        return (
            *measures.gauge(busy, words[0].rjust(4), 14),
            Piece("  "),
            *measures.gauge(share, words[1].rjust(4), 14),
            Piece("  "),
        )
    roles = ["absent" if word == measures.ABSENT else "text" for word in words]
    return said((words[0].rjust(5), roles[0]), (words[1].rjust(6), roles[1]), "  ")


def _memory(device: Device, reading: DeviceSample | None, width: int) -> Pieces:
    used = reading.memory_used_bytes if reading else None
    total = (reading.memory_total_bytes if reading else None) or device.memory_bytes
    if used is None:
        words = f"-/{total / 1e9:.0f} GB" if total is not None else "-"
        if device.unified:
            words = "unified with the machine's" if width > 24 else "the machine's"
        return fit(said((words.rjust(width), "dim")), width)
    words = f"{used / 1e9:.0f}/{total / 1e9:.0f} GB" if total else show_bytes(used)
    if device.unified:
        words = f"unified {words}"
    return measures.gauge(measures.share_of(used, total), words.rjust(9), width)


def _heat(reading: DeviceSample | None) -> Pieces:
    """Return temperature and power, as far as they are known."""
    heat = measures.number(reading.temperature_celsius if reading else None, "°C")
    power = measures.number(reading.power_watts if reading else None, " W")
    return (
        *fit(said((heat, "dim")), 7, "right"),
        *fit(said((power, "dim")), 6, "right"),
        Piece("  "),
    )
