"""How full the fleet is, by class of device; machines without devices are the class `cpu`."""

from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.model.availability import (
    AWAY,
    CORDONS,
    DRAINS,
    FOREIGN,
    FREE,
    HELD,
    UNHEALTHY,
    availability,
    given_out,
)
from llmgw.model.device import Device
from llmgw.model.node import READY
from llmgw_tui.draw import measures
from llmgw_tui.draw.page import PageLine
from llmgw_tui.draw.seen import NodeSeen
from llmgw_tui.draw.text import Piece, clean, fit, pieces_width, said

CPU = "cpu"


@dataclass(slots=True)
class ClassSeen:
    """One class: counts of its devices, and what is known of the load on its nodes."""

    name: str
    nodes: int = 0
    devices: int = 0
    held: int = 0
    away: int = 0
    """On nodes that are not ready, or take no new replicas, and not held."""
    sick: int = 0
    foreign: int = 0
    """Used by processes that are not llmgw's."""
    free: int = 0
    """What a new replica could take."""
    load: list[float] | None = None
    memory: list[float] | None = None


def classes(nodes: Iterable[NodeSeen]) -> tuple[ClassSeen, ...]:
    """Return every class, those with the most devices first and `cpu` last."""
    found: dict[str, ClassSeen] = {}
    for seen in nodes:
        devices = seen.devices
        if devices is None:
            continue
        if not devices:
            _count_cpu(found.setdefault(CPU, ClassSeen(CPU)), seen)
            continue
        names: set[str] = set()
        held = seen.held
        for device in given_out(devices):
            name = clean(device.device_class or device.name or "unknown")
            names.add(name)
            here = found.setdefault(name, ClassSeen(name))
            _count_device(here, seen, device, held=device.uuid in held)
        for name in names:
            found[name].nodes += 1
    return tuple(sorted(found.values(), key=lambda one: (one.name == CPU, -one.devices, one.name)))


def _count_device(here: ClassSeen, seen: NodeSeen, device: Device, *, held: bool) -> None:
    here.devices += 1
    reading = seen.readings.get(device.uuid)
    found = availability(device, seen.node, reading, held=held)
    here.held += found == HELD
    here.free += found == FREE
    here.sick += found == UNHEALTHY
    here.foreign += found == FOREIGN
    here.away += found in {AWAY, DRAINS, CORDONS}
    if reading is not None and reading.busy_percent is not None:
        here.load = [*(here.load or []), reading.busy_percent / 100]


def _count_cpu(here: ClassSeen, seen: NodeSeen) -> None:
    here.nodes += 1
    if seen.node.liveness != READY:
        here.away += 1
    if seen.cpu_share is not None:
        here.load = [*(here.load or []), seen.cpu_share]
    if seen.memory_share is not None:
        here.memory = [*(here.memory or []), seen.memory_share]


def mean(values: list[float] | None) -> float | None:
    """Return the mean of what was measured; None when nothing was."""
    return sum(values) / len(values) if values else None


def line(here: ClassSeen, width: int) -> PageLine:
    """Return a class as one line: how much of it is held, and how busy it is."""
    name = fit(said((here.name, "strong")), 16 if width < 70 else 22)
    room = max(10, min(34, width - 50))
    if here.name == CPU:
        return PageLine((*name, *_cpu_words(here, room)))
    held = measures.share_of(here.held, here.devices)
    words = f"{here.held}/{here.devices}"
    meter = measures.gauge(held, words.rjust(7), room)
    rest = said("  ", (f"{here.free} free", "strong" if here.free else "warn"))
    if here.sick:
        rest += said((f", {here.sick} sick", "down"))
    if here.foreign:
        rest += said((f", {here.foreign} foreign", "warn"))
    if here.away:
        rest += said((f", {here.away} away", "unknown"))
    busy = mean(here.load)
    if busy is not None:
        last = said((f"  {measures.percent(busy)} busy", "dim"))
        if pieces_width((*name, *meter, *rest, *last)) <= width:
            rest += last
    return PageLine((*name, *meter, *rest))


def _cpu_words(here: ClassSeen, room: int) -> tuple[Piece, ...]:
    memory, load = mean(here.memory), mean(here.load)
    meter = measures.gauge(memory, f"{measures.percent(memory)} RAM".rjust(8), room)
    away = said((f", {here.away} away", "unknown")) if here.away else ()
    nodes = measures.counted(here.nodes, "node")
    busy = said((f"  CPU {measures.percent(load)}", "dim")) if load is not None else ()
    return (*meter, *said("  ", nodes), *away, *busy)
