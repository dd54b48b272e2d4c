"""How devices and ports are, in words: commands and console say the same.

A fact is either calm or something that a person should look at. What is not known has no fact, but
where its absence is the point: a device that does not tell of its health is said to be silent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from llmgw.model.cause import ASKS_FOR, PAGE_WAITS, ROW_FAILED, ROW_WAITS, driver_error, same
from llmgw.model.device import (
    GPU,
    MIG,
    Device,
    DeviceHealth,
    DeviceSample,
    NvlinkFabric,
    PciLink,
    Xid,
    card_number,
)
from llmgw.model.fabric import NvlinkDomain, Port
from llmgw.model.node import Heartbeat, Inventory
from llmgw.model.record import Record

Ages = Callable[[float | None], str]
"""Says a number of seconds as people read it."""

XID_ACTIONS = {
    "ignore": "nothing to do",
    "restart_application": "restart the engine",
    "reset": "reset the device",
    "reboot": "reboot the machine",
    "replace": "replace the card",
}

_COMPLETED, _SUCCESS = "completed", "success"
"""What a GPU says of its fabric when it is joined, in whatever case."""

BAD_THROTTLES = ("hardware slowdown", "heat (software)", "heat (hardware)", "power brake")
_FAULTS = frozenset(
    {
        "VL15_dropped",
        "link_downed",
        "link_error_recovery",
        "out_of_buffer",
        "out_of_sequence",
        "port_xmit_discards",
        "roce_adp_retrans",
        "rx_icrc_encapsulated",
        "symbol_error",
    }
)
_FAULT_ENDS = ("_errors", "_error", "_err")


class Fact(Record, frozen=True, kw_only=True):
    """One thing to say. `wrong`: a person should look at it."""

    words: str
    wrong: bool = False


def device_facts(
    device: Device,
    health: DeviceHealth | None,
    reading: DeviceSample | None,
    domain: NvlinkDomain | None,
    *,
    now: float,
    ages: Ages,
) -> tuple[Fact, ...]:
    """Return everything about a device's condition, what is wrong first, one cause once.

    A driver error is told with how often and when it happened, anything else with what to do.

    Args:
        device: it.
        health: what it says of its wear; None: it was not asked, or does not answer.
        reading: its last readings.
        domain: what the node says of its NVLink domain.
        now: seconds since the epoch.
        ages: how a duration is written.
    """
    found = [*foreign_facts(reading), *faults(health, reading, now=now, ages=ages)]
    found += [] if device.pci is None else _pci(device.pci)
    found += [] if device.nvlink is None else fabric_facts(device.nvlink, domain)
    found = _once(device.unhealthy or (), found)
    return (*(one for one in found if one.wrong), *(one for one in found if not one.wrong))


def conditions(
    inventory: Inventory, beat: Heartbeat | None, *, now: float, ages: Ages
) -> tuple[tuple[Device, tuple[Fact, ...]], ...]:
    """Return a node's devices in their order, cards that are cut among them, each with its facts.

    What is wrong with a card is not told of its instances again.

    Args:
        inventory: what the node has.
        beat: its last heartbeat; None: it is not heard.
        now: seconds since the epoch.
        ages: how a duration is written.
    """
    health = {one.uuid: one for one in (beat.health if beat else None) or ()}
    readings = {one.uuid: one for one in (beat.devices if beat else None) or ()}
    told: dict[str, tuple[Fact, ...]] = {}
    devices = with_cards(inventory.devices or ())
    for device in devices:
        of_card = told.get(device.card_uuid or "", ())
        own = device if not of_card else _without(device, of_card)
        told[device.uuid] = device_facts(
            own,
            health.get(device.uuid),
            readings.get(device.uuid),
            inventory.nvlink_domain,
            now=now,
            ages=ages,
        )
    return tuple((device, told[device.uuid]) for device in devices)


def _without(device: Device, of_card: Sequence[Fact]) -> Device:
    told = [one.words for one in of_card if one.wrong]
    reasons = device.unhealthy
    own = reasons and tuple(one for one in reasons if not any(same(one, it) for it in told))
    return msgspec.structs.replace(device, unhealthy=own)


def _once(reasons: Sequence[str], facts: Sequence[Fact]) -> list[Fact]:
    """Return why a device is out of order and what it tells, without what both say.

    Of a driver error the fact stays: it has how often, when and what to do, and a reason may have
    no more than the number. Of anything else the reason stays.
    """
    errors = [fact.words for fact in facts if fact.wrong and driver_error(fact.words)]
    why = [reason for reason in reasons if not any(same(reason, words) for words in errors)]
    told = [fact for fact in facts if not any(same(reason, fact.words) for reason in why)]
    return [*(Fact(words=reason, wrong=True) for reason in why), *told]


def faults(
    health: DeviceHealth | None, reading: DeviceSample | None, *, now: float, ages: Ages
) -> Iterator[Fact]:
    """Yield what a device tells of throttling, errors and wear.

    Args: those of `device_facts`.
    """
    yield from _throttles(reading)
    if health is not None:
        yield from (_xid(xid, now, ages) for xid in health.xids or ())
        yield from _asked(health)
    yield from _ecc(health, reading)
    if health is not None:
        yield from _rows(health)
        yield from _links(health)


def foreign_facts(reading: DeviceSample | None) -> Iterator[Fact]:
    """Yield the processes on a device that are not llmgw's."""
    for process in (reading.foreign if reading else None) or ():
        name = f" {process.command}" if process.command else ""
        memory = _gigabytes(process.memory_bytes)
        draws = ", only draws" if process.only_draws else ""
        words = f"not ours: pid {process.pid}{name}, {memory}{draws}"
        yield Fact(words=words, wrong=not process.only_draws)


def fabric_facts(fabric: NvlinkFabric, domain: NvlinkDomain | None) -> Iterator[Fact]:
    """Say whether a GPU is joined to an NVLink domain, and why it is not.

    A cluster of zeros is the NVSwitch of a single machine. A completed state with an id proves
    nothing yet: GPUs of other machines are reached once nvidia-imex runs here and has a channel.
    """
    if fabric.health not in {None, "Healthy"}:
        yield Fact(words=f"NVLink fabric health: {fabric.health}", wrong=True)
    if fabric.state is None and fabric.cluster_uuid is None:
        return
    state, status = fabric.state or _COMPLETED, fabric.status or _SUCCESS
    if state.lower() != _COMPLETED or status.lower() != _SUCCESS:
        said = ", ".join(word for word in (fabric.state, fabric.status) if word)
        yield Fact(words=f"NVLink fabric not joined: {said}", wrong=True)
    elif fabric.cluster_uuid is None or not fabric.cluster_uuid.strip("0-"):
        yield Fact(words="NVLink fabric of this machine alone")
    else:
        clique = "-" if fabric.clique_id is None else fabric.clique_id
        name = f"NVLink domain {fabric.cluster_uuid[:8]}/{clique}"
        yield _imex(name, domain or NvlinkDomain())


def _imex(name: str, domain: NvlinkDomain) -> Fact:
    if domain.imex_running is False:
        return Fact(words=f"{name} not joined: nvidia-imex does not run", wrong=True)
    if domain.imex_channels == ():
        return Fact(words=f"{name} not joined: nvidia-imex has no channel here", wrong=True)
    if domain.imex_running is None or domain.imex_channels is None:
        return Fact(words=f"{name}, not proven: whether nvidia-imex runs is not known")
    return Fact(words=f"{name} joined")


def port_faults(port: Port) -> tuple[str, ...]:
    """Return a port's error counters that are not zero: `symbol_error 12`.

    A counter that stands at the most that it can hold is `at least` that.
    """
    return tuple(
        f"{one.name} {'at least ' if one.at_ceiling else ''}{one.value}"
        for one in port.counters or ()
        if one.value and (one.name in _FAULTS or one.name.endswith(_FAULT_ENDS))
    )


def port_network(port: Port) -> str:
    """Return what a port is plugged into, as far as it is known: fabric, master or IP network."""
    if port.fabric:
        return port.fabric
    if port.master_guid:
        return f"master {port.master_guid}"
    return port.network or ""


def with_cards(devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return devices by number, before a card's instances the card itself.

    A card in MIG mode is reported as its instances; heat, power and health stay the card's, so it
    has a place of its own also where nobody lists it.
    """
    found = list(devices)
    known = {one.uuid for one in found}
    for one in tuple(found):
        if one.card_uuid is not None and one.card_uuid not in known:
            known.add(one.card_uuid)
            number = None if one.number is None else card_number(one.number)
            found.append(Device(uuid=one.card_uuid, kind=GPU, number=number, mig_enabled=True))
    return tuple(sorted(found, key=_place))


def _place(device: Device) -> tuple[int, int]:
    if device.number is None:
        return (1 << 30, 0)
    instance = -1 if device.card_uuid is None and device.kind != MIG else device.number
    return (card_number(device.number), instance)


def names_of(devices: Sequence[Device]) -> str:
    """Return the names of devices that share a fact: `gpu0-gpu3, gpu6`."""
    runs: list[list[Device]] = []
    for device in devices:
        before = runs[-1][-1] if runs else None
        follows = (
            before is not None
            and before.number is not None
            and device.number == before.number + 1
            and device.kind == before.kind
        )
        if follows:
            runs[-1].append(device)
        else:
            runs.append([device])
    return ", ".join(_run(run) for run in runs)


def _run(run: list[Device]) -> str:
    first, last = run[0].shown, run[-1].shown
    if len(run) == 1:
        return first
    return f"{first}, {last}" if len(run) == 2 else f"{first}-{last}"


def _throttles(reading: DeviceSample | None) -> Iterator[Fact]:
    reasons = (reading.throttle_reasons if reading else None) or ()
    if reasons and reasons != ("idle",):
        slowed = [reason for reason in reasons if reason != "idle"]
        bad = any(reason in BAD_THROTTLES for reason in slowed)
        yield Fact(words=f"slowed down: {', '.join(slowed)}", wrong=bad)


def _xid(xid: Xid, now: float, ages: Ages) -> Fact:
    times = "once" if xid.count == 1 else f"{xid.count} times"
    last = "" if xid.last_seen is None else f", last {ages(max(0.0, now - xid.last_seen))} ago"
    words = f": {xid.words}" if xid.words else ""
    action = xid.action and XID_ACTIONS.get(xid.action, xid.action)
    over = xid.cleared is True or xid.action == "ignore"
    asks = "" if not action or xid.cleared else f"; {action}"
    cleared = "; cleared" if xid.cleared else ""
    return Fact(words=f"XID {xid.code} {times}{last}{words}{asks}{cleared}", wrong=not over)


def _asked(health: DeviceHealth) -> Iterator[Fact]:
    action = health.recovery_action
    if action is not None and action != "none":
        yield Fact(words=ASKS_FOR.get(action, f"the driver asks for: {action}"), wrong=True)


def _ecc(health: DeviceHealth | None, reading: DeviceSample | None) -> Iterator[Fact]:
    """Say what a device counts; its readings are newer than the minute's report."""
    now = None if reading is None else _pair(reading.ecc_corrected, reading.ecc_uncorrected)
    life = None
    if health is not None:
        now = now or _pair(health.ecc_corrected_volatile, health.ecc_uncorrected_volatile)
        life = _pair(health.ecc_corrected_aggregate, health.ecc_uncorrected_aggregate)
    if now is None and life is None:
        return
    if not _any(now) and not _any(life):
        yield Fact(words="no ECC errors")
        return
    parts = [
        f"{_counts(pair)} {when}"
        for pair, when in ((now, "since the driver was loaded"), (life, "in its life"))
        if pair is not None
    ]
    wrong = now is not None and bool(now[1])
    yield Fact(words=f"ECC errors: {'; '.join(parts)}", wrong=wrong)


def _rows(health: DeviceHealth) -> Iterator[Fact]:
    if health.remap_failed:
        yield Fact(words=ROW_FAILED, wrong=True)
    if health.remap_pending:
        yield Fact(words=ROW_WAITS, wrong=True)
    if health.retire_pending:
        yield Fact(words=PAGE_WAITS, wrong=True)
    rows = _pair(health.remapped_corrected, health.remapped_uncorrected)
    pages = _pair(health.retired_corrected, health.retired_uncorrected)
    for pair, what in ((rows, "rows remapped"), (pages, "pages retired")):
        if pair is not None:
            yield Fact(words=f"{what}: {_counts(pair)}" if _any(pair) else f"no {what}")


def _links(health: DeviceHealth) -> Iterator[Fact]:
    if health.nvlinks is None:
        return
    down = health.nvlinks_down
    errors = [
        f"{count} {what}"
        for count, what in (
            (health.nvlink_replay_errors, "replay"),
            (health.nvlink_recovery_errors, "recovery"),
            (health.nvlink_crc_errors, "CRC"),
        )
        if count
    ]
    said = f"{health.nvlinks} NVLinks" if not down else f"{down} of {health.nvlinks} NVLinks down"
    if errors:
        said += f", errors: {', '.join(errors)}"
    yield Fact(words=said, wrong=bool(down))


def _pci(pci: PciLink) -> Iterator[Fact]:
    parts: list[str] = []
    narrow = pci.lanes is not None and pci.max_lanes is not None and pci.lanes < pci.max_lanes
    slow = (
        pci.max_generation is not None
        and pci.card_generation is not None
        and pci.max_generation < pci.card_generation
    )
    if pci.max_generation is not None:
        of_card = f" of the card's {pci.card_generation}" if slow else ""
        parts.append(f"generation {pci.max_generation}{of_card}")
    if pci.lanes is not None:
        most = "" if pci.max_lanes is None else f" of {pci.max_lanes}"
        parts.append(f"{pci.lanes}{most} lanes")
    if parts:
        yield Fact(words=f"PCIe {', '.join(parts)}", wrong=narrow or slow)


Pair = tuple[int | None, int | None]


def _pair(corrected: int | None, uncorrected: int | None) -> Pair | None:
    return None if corrected is None and uncorrected is None else (corrected, uncorrected)


def _any(pair: Pair | None) -> bool:
    return pair is not None and any(pair)


def _counts(pair: Pair) -> str:
    corrected, uncorrected = ("-" if count is None else str(count) for count in pair)
    return f"{corrected} corrected, {uncorrected} uncorrected"


def _gigabytes(count: int | None) -> str:
    return "memory not known" if count is None else f"{count / 1e9:.1f} GB"
