"""What is wrong with a node, in words, one cause once: commands, console and API say the same."""

import re
from collections.abc import Iterable, Iterator, Sequence

from llmgw.model.condition import Ages, by_trouble, fabric_facts, faults, names_of, with_cards
from llmgw.model.device import MIG, Device
from llmgw.model.node import READY, Heartbeat, Inventory, Node, ProbeState


def reasons(devices: Iterable[Device]) -> dict[str, list[Device]]:
    """Return why devices are out of order: each reason once, with the devices that have it."""
    found: dict[str, list[Device]] = {}
    for device in sorted(devices, key=_number):
        for words in dict.fromkeys(device.unhealthy or ()):
            found.setdefault(words, []).append(device)
    return found


def unsaid(inventory: Inventory, health: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a node's warnings that neither its health nor its devices name in the same words."""
    of_devices = reasons(inventory.devices or ())
    return tuple(
        words
        for warning in inventory.warnings or ()
        if warning.words not in of_devices
        and (words := f"{warning.subject}: {warning.words}") not in health
    )


def health_of(node: Node) -> tuple[str, ...]:
    """Return what is wrong with a node by its record: its health, and what its inventory warns of.

    Readings are not looked at: see `troubles`.
    """
    return tuple(dict.fromkeys((*node.health, *unsaid(node.inventory, node.health))))


def troubles(node: Node, heartbeat: Heartbeat | None, *, now: float, ages: Ages) -> tuple[str, ...]:
    """Return all that is wrong with a node: by its record, its readings and its sources of facts.

    Args:
        node: it.
        heartbeat: its last; what a node said that is not heard any more does not count.
        now: seconds since the epoch.
        ages: how a duration is written.
    """
    beat = heartbeat if node.liveness == READY else None
    if beat is None:
        return health_of(node)
    found = (*health_of(node), *_of_devices(node, beat, now, ages), *_of_probes(beat, ages))
    return tuple(dict.fromkeys(found))


def short(words: Sequence[str], width: int) -> str:
    """Return the first of several sentences, in so many characters, and how many more there are."""
    if not words:
        return ""
    first, *others = words
    first = first if len(first) <= width else f"{first[: width - 1].rstrip()}…"
    return f"{first} and {len(others)} more" if others else first


def _of_devices(node: Node, beat: Heartbeat, now: float, ages: Ages) -> Iterator[str]:
    health = {one.uuid: one for one in beat.health or ()}
    readings = {one.uuid: one for one in beat.devices or ()}
    found: dict[str, list[Device]] = {}
    for device in with_cards(node.inventory.devices or ()):
        if device.kind == MIG:
            continue  # what is wrong is wrong with its card
        wear, reading = health.get(device.uuid), readings.get(device.uuid)
        told = [*faults(wear, reading, now=now, ages=ages)]
        if device.nvlink is not None:
            told += fabric_facts(device.nvlink, node.inventory.nvlink_domain)
        for fact in told:
            if fact.wrong and not _named(fact.words, device):
                found.setdefault(fact.words, []).append(device)
    yield from (f"{names_of(devices)}: {words}" for words, devices in found.items())


def _named(words: str, device: Device) -> bool:
    """Say whether a device's own reasons name that driver error already: `XID 79 once …`."""
    kind, number, *_ = (*words.split(), "", "")
    if kind != "XID" or not number.isdecimal():
        return False
    return any(re.search(rf"\bXID {number}\b", one) for one in device.unhealthy or ())


def _of_probes(beat: Heartbeat, ages: Ages) -> Iterator[str]:
    """Yield the sources of facts that fail, those together that fail with the same words."""
    failing: dict[str, list[ProbeState]] = {}
    for probe in by_trouble(beat.probes or ()):
        if probe.error is not None:
            failing.setdefault(probe.error, []).append(probe)
    for error, probes in failing.items():
        names = ", ".join(probe.name for probe in probes)
        since = probes[0].failing
        lasts = "" if since is None else f" for {ages(since)}"
        verb = "probe {} fails" if len(probes) == 1 else "probes {} fail"
        yield f"{verb.format(names)}{lasts}: {error}"


def _number(device: Device) -> tuple[bool, int]:
    return (device.number is None, device.number or 0)
