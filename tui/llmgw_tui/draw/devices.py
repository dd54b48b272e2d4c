"""Devices of a node, one line each."""

from llmgw.base.units import show_bytes
from llmgw.model.device import MIG, Device, DeviceSample
from llmgw_tui.draw import measures
from llmgw_tui.draw.page import PageLine, Section, Spot
from llmgw_tui.draw.places import REPLICA, Place
from llmgw_tui.draw.seen import NodeSeen, device_name
from llmgw_tui.draw.states import DOWN, IDLE, SERVING, UNKNOWN, WARN, State
from llmgw_tui.draw.text import Piece, Pieces, clean, fit, said


def device_state(device: Device, held: bool) -> State:
    """Return a device's state: unhealthy first, then whether something holds it."""
    if device.unhealthy:
        return State("unhealthy", DOWN)
    if held:
        return State("in use", SERVING)
    if device.unhealthy is None:
        return State("free?", UNKNOWN)
    return State("free", IDLE)


def section(seen: NodeSeen, width: int) -> Section | None:
    """Return the devices' section; None when the node has none."""
    devices = seen.devices
    if devices is None:
        return Section("Devices", (PageLine(said(("this node cannot say", "absent"))),))
    if not devices:
        return None
    held = sum(device.uuid in seen.held for device in devices)
    lines: list[PageLine] = []
    for device in devices:
        lines.extend(_lines(device, seen, width))
    return Section("Devices", tuple(lines), said((f"{held} of {len(devices)} held", "dim")))


def _lines(device: Device, seen: NodeSeen, width: int) -> list[PageLine]:
    reading = seen.readings.get(device.uuid)
    holder = seen.held.get(device.uuid)
    name = device_name(device)
    pieces: list[Piece] = list(fit(said((name, "strong")), 10 if device.kind == MIG else 6))
    pieces += fit(device_state(device, holder is not None).pieces, 12)
    pieces += _busy(reading, 16 if width >= 110 else 10)
    pieces += _memory(device, reading, 28 if width >= 110 else 22)
    if width >= 100:
        pieces += fit(said((clean(device.device_class or device.name or "-"), "dim")), 22)
    pieces += _heat(reading)
    if holder is not None:
        pieces += said(clean(holder))
    spots = (Spot(Place(REPLICA, holder)),) if holder is not None else ()
    lines = [PageLine(tuple(pieces), spots)]
    lines.extend(
        PageLine(said("      ", ("▲ ", WARN), (clean(words), WARN)))
        for words in device.unhealthy or ()
    )
    for process in (reading.foreign if reading else None) or ():
        words = f"not ours: pid {process.pid} {process.command or ''}".rstrip()
        memory = show_bytes(process.memory_bytes)
        lines.append(PageLine(said("      ", ("▲ ", WARN), (f"{clean(words)}, {memory}", WARN))))
    return lines


def _busy(reading: DeviceSample | None, width: int) -> Pieces:
    share = measures.share_of(reading.busy_percent, 100.0) if reading else None
    return (*measures.gauge(share, measures.percent(share).rjust(4), width), Piece("  "))


def _memory(device: Device, reading: DeviceSample | None, width: int) -> Pieces:
    used = reading.memory_used_bytes if reading else None
    total = (reading.memory_total_bytes if reading else None) or device.memory_bytes
    if used is None:
        words = f"-/{total / 1e9:.0f} GB" if total is not None else "-"
        return (*fit(said((words.rjust(width), "dim")), width), Piece("  "))
    words = f"{used / 1e9:.0f}/{total / 1e9:.0f} GB" if total else show_bytes(used)
    return (*measures.gauge(measures.share_of(used, total), words.rjust(9), width), Piece("  "))


def _heat(reading: DeviceSample | None) -> Pieces:
    """Return temperature and power, as far as they are known."""
    heat = measures.number(reading.temperature_celsius if reading else None, "°C")
    power = measures.number(reading.power_watts if reading else None, " W")
    return (
        *fit(said((heat, "dim")), 5, "right"),
        *fit(said((power, "dim")), 6, "right"),
        Piece("  "),
    )
