"""What is wrong with a node, in words, one cause once: commands, console and API say the same."""

from collections.abc import Iterable, Iterator, Sequence

from llmgw.model.cause import same
from llmgw.model.condition import Ages, fabric_facts, faults, names_of, with_cards
from llmgw.model.device import MIG, Device
from llmgw.model.node import READY, Heartbeat, Inventory, Node, ProbeState
from llmgw.model.probes import by_trouble

MASS_LOSS = "mass loss"
"""The subject of many nodes that were lost together."""

CERTIFICATE_LEFT = 0.25
"""Of its life: a certificate with less left should have been renewed at a third, and was not."""
CERTIFICATE_LATE = 5 * 86_400.0
"""Seconds before its end at which one of unknown life is late."""


def reasons(devices: Iterable[Device]) -> dict[str, list[Device]]:
    """Return why devices are out of order: each reason once, with the devices that have it."""
    found: dict[str, list[Device]] = {}
    for device in sorted(devices, key=_number):
        for words in dict.fromkeys(device.unhealthy or ()):
            found.setdefault(words, []).append(device)
    return found


def named(device: Device) -> str:
    """Return what people call a device, and what it is: `gpu0 (NVIDIA H100)`."""
    what = device.name or device.device_class or device.uuid
    return device.shown if what == device.shown else f"{device.shown} ({what})"


def named_together(devices: Sequence[Device]) -> str:
    """Return what people call devices of which the same is told: one with what it is."""
    return named(devices[0]) if len(devices) == 1 else names_of(devices)


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


def of_machine(node: Node) -> tuple[str, ...]:
    """Return of what is wrong with a node by its record what is not the matter of a device.

    A page that tells of each device says what is wrong with those there.
    """
    devices = {
        f"{name}: {words}"
        for words, found in reasons(node.inventory.devices or ()).items()
        for name in (names_of(found), named_together(found))
    }
    return tuple(words for words in health_of(node) if words not in devices)


def troubles(node: Node, heartbeat: Heartbeat | None, *, now: float, ages: Ages) -> tuple[str, ...]:
    """Return all that is wrong with a node: record, certificate, readings, sources of facts.

    Args:
        node: it.
        heartbeat: its last; what a node said that is not heard any more does not count.
        now: seconds since the epoch.
        ages: how a duration is written.
    """
    beat = heartbeat if node.liveness == READY else None
    certificate = _certificate(node, now, ages)
    if beat is None:
        return (*health_of(node), *certificate)
    found = (
        *health_of(node),
        *certificate,
        *_of_devices(node, beat, now, ages),
        *probe_troubles(beat, ages),
    )
    return tuple(dict.fromkeys(found))


def short(words: Sequence[str], width: int) -> str:
    """Return the first of several sentences, in so many characters, and how many more there are."""
    if not words:
        return ""
    first, *others = words
    first = first if len(first) <= width else f"{first[: width - 1].rstrip()}…"
    return f"{first} and {len(others)} more" if others else first


def _certificate(node: Node, now: float, ages: Ages) -> tuple[str, ...]:
    begins, ends = node.certificate_begins, node.certificate_ends
    if ends is None:
        return ()
    late = CERTIFICATE_LATE if begins is None else CERTIFICATE_LEFT * (ends - begins)
    if ends - now >= late:
        return ()
    left = f"ends in {ages(ends - now)}" if ends > now else "has ended"
    return (f"its certificate {left} and was not renewed",)


def _of_devices(node: Node, beat: Heartbeat, now: float, ages: Ages) -> Iterator[str]:
    health = {one.uuid: one for one in beat.health or ()}
    readings = {one.uuid: one for one in beat.devices or ()}
    found: dict[str, list[Device]] = {}
    devices = with_cards(node.inventory.devices or ())
    for device in devices:
        if device.kind == MIG:
            continue  # what is wrong is wrong with its card
        wear, reading = health.get(device.uuid), readings.get(device.uuid)
        told = [*faults(wear, reading, now=now, ages=ages)]
        if device.nvlink is not None:
            told += fabric_facts(device.nvlink, node.inventory.nvlink_domain)
        for fact in told:
            if fact.wrong and not _named(fact.words, device, devices):
                found.setdefault(fact.words, []).append(device)
    yield from (f"{names_of(devices)}: {words}" for words, devices in found.items())


def _named(words: str, card: Device, devices: Sequence[Device]) -> bool:
    """Say whether the reasons of a card, or of its instances, have that cause already."""
    return any(
        same(reason, words)
        for one in devices
        if card.uuid in {one.uuid, one.card_uuid}
        for reason in one.unhealthy or ()
    )


def probe_troubles(beat: Heartbeat, ages: Ages) -> Iterator[str]:
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
