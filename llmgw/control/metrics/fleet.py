"""The fleet: nodes, devices by class, replicas, and why something is not placed."""

from collections import Counter
from collections.abc import Iterator

from llmgw.control.metrics.family import GAUGE, Family, Samples
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.device import Device
from llmgw.model.node import LOST, READY, UNREACHABLE, WISHES
from llmgw.plan.records import NodeRoom

UNKNOWN = "unknown"
LIVENESS = (READY, UNREACHABLE, LOST, UNKNOWN)

ON_STANDBY = "on a standby"
NO_DEVICES = "for a class of which no node has a device"


def _nodes(seen: Snapshot) -> Samples:
    counts = Counter(room.node.liveness or UNKNOWN for room in seen.rooms)
    return [((state,), counts[state]) for state in (*LIVENESS, *(counts.keys() - set(LIVENESS)))]


def _node_state(seen: Snapshot) -> Samples:
    for room in seen.rooms:
        now = room.node.liveness or UNKNOWN
        for state in LIVENESS:
            yield (room.node.id, state), int(state == now)


def _wishes(seen: Snapshot) -> Samples:
    counts = Counter(room.node.wish for room in seen.rooms)
    return [((wish,), counts[wish]) for wish in WISHES]


def _unhealthy_nodes(seen: Snapshot) -> Samples:
    return [((), sum(bool(room.node.health) for room in seen.rooms))]


def _certificates(seen: Snapshot) -> Samples:
    return [(("node", room.node.id), room.node.certificate_ends) for room in seen.rooms]


def _devices(seen: Snapshot) -> Iterator[tuple[NodeRoom, Device]]:
    for room in seen.rooms:
        for device in room.node.inventory.devices or ():
            # A card that is cut into instances is given to nobody: its instances are.
            if not device.mig_enabled:
                yield room, device


def _class(device: Device) -> str:
    return device.device_class or UNKNOWN


def _held(room: NodeRoom) -> frozenset[str]:
    return frozenset(uuid for booking in room.bookings for uuid in booking.devices)


def _total(seen: Snapshot) -> Samples:
    counts = Counter(_class(device) for _, device in _devices(seen))
    return [((name,), count) for name, count in sorted(counts.items())]


def _in_use(seen: Snapshot) -> Samples:
    counts = Counter({_class(device): 0 for _, device in _devices(seen)})
    counts.update(_class(one) for room, one in _devices(seen) if one.uuid in _held(room))
    return [((name,), count) for name, count in sorted(counts.items())]


def _unhealthy(seen: Snapshot) -> Samples:
    counts = Counter({_class(device): 0 for _, device in _devices(seen)})
    counts.update(_class(device) for _, device in _devices(seen) if device.unhealthy)
    return [((name,), count) for name, count in sorted(counts.items())]


def _free(seen: Snapshot) -> Samples:
    counts = Counter({_class(device): 0 for _, device in _devices(seen)})
    counts.update(
        _class(device)
        for room, device in _devices(seen)
        if device.uuid not in _held(room)
        and not device.unhealthy
        and room.node.liveness == READY
        and room.node.wish is None
    )
    return [((name,), count) for name, count in sorted(counts.items())]


def _replicas(seen: Snapshot) -> Samples:
    counts = Counter((one.model or UNKNOWN, one.state or UNKNOWN) for one in seen.replicas)
    return sorted(counts.items())


def _wanted(seen: Snapshot) -> Samples:
    return [((route.model,), route.wanted) for route in seen.routes]


def _serving(seen: Snapshot) -> Samples:
    return [((route.model,), len(route.endpoints)) for route in seen.routes]


def _refused(seen: Snapshot) -> Samples:
    counts = Counter({route.model: 0 for route in seen.routes})
    counts.update(refusal.model for refusal in (seen.plan.refusals if seen.plan else ()))
    return [((model,), count if seen.plan else None) for model, count in sorted(counts.items())]


def _refusals(seen: Snapshot) -> Samples:
    counts = Counter(
        (refusal.model, candidate.verdict.rule, candidate.verdict.kind)
        for refusal in (seen.plan.refusals if seen.plan else ())
        for candidate in refusal.candidates
    )
    return sorted(counts.items())


FAMILIES = (
    Family(
        "llmgw_nodes",
        GAUGE,
        ("state",),
        "nodes",
        "Nodes by liveness; `unknown`: not heard of since the control plane started.",
        absent=ON_STANDBY,
        read=_nodes,
    ),
    Family(
        "llmgw_node_state",
        GAUGE,
        ("node", "state"),
        "0 or 1",
        "1 for the liveness that a node has, 0 for the others.",
        absent=ON_STANDBY,
        read=_node_state,
    ),
    Family(
        "llmgw_nodes_wished",
        GAUGE,
        ("wish",),
        "nodes",
        "Nodes that are cordoned or draining.",
        absent=ON_STANDBY,
        read=_wishes,
    ),
    Family(
        "llmgw_nodes_unhealthy",
        GAUGE,
        (),
        "nodes",
        "Nodes with a reason why something is wrong with them.",
        absent=ON_STANDBY,
        read=_unhealthy_nodes,
    ),
    Family(
        "llmgw_certificate_expiry_timestamp_seconds",
        GAUGE,
        ("role", "id"),
        "seconds since the epoch",
        "When the certificate of a node ends.",
        absent="for a node that has not connected since the control plane started",
        read=_certificates,
    ),
    Family(
        "llmgw_devices",
        GAUGE,
        ("class",),
        "devices",
        "Devices that engines can be given, by class.",
        absent=NO_DEVICES,
        read=_total,
    ),
    Family(
        "llmgw_devices_in_use",
        GAUGE,
        ("class",),
        "devices",
        "Devices that a live shard holds.",
        absent=NO_DEVICES,
        read=_in_use,
    ),
    Family(
        "llmgw_devices_unhealthy",
        GAUGE,
        ("class",),
        "devices",
        "Devices on which nothing can be placed.",
        absent=NO_DEVICES,
        read=_unhealthy,
    ),
    Family(
        "llmgw_devices_free",
        GAUGE,
        ("class",),
        "devices",
        "Devices that are healthy and held by nobody, on nodes that are ready and not cordoned.",
        absent=NO_DEVICES,
        read=_free,
    ),
    Family(
        "llmgw_replicas",
        GAUGE,
        ("model", "state"),
        "replicas",
        "Replicas by state.",
        absent="for a state that no replica of the model is in",
        read=_replicas,
    ),
    Family(
        "llmgw_replicas_wanted",
        GAUGE,
        ("model",),
        "replicas",
        "Replicas that the catalog wants.",
        absent="for a model that is not in the catalog",
        read=_wanted,
    ),
    Family(
        "llmgw_replicas_serving",
        GAUGE,
        ("model",),
        "replicas",
        "Replicas that requests go to.",
        absent="for a model that is not in the catalog",
        read=_serving,
    ),
    Family(
        "llmgw_replicas_refused",
        GAUGE,
        ("model",),
        "replicas",
        "Replicas that are wanted and found no place in the last plan.",
        absent="before the first plan",
        read=_refused,
    ),
    Family(
        "llmgw_placement_refusals",
        GAUGE,
        ("model", "reason", "kind"),
        "nodes",
        "Nodes that the last plan turned down for a wanted replica, by the rule that did; "
        "kind: not_now, not_unless_evicted or never.",
        absent="for a rule that turned nobody down",
        read=_refusals,
    ),
)
