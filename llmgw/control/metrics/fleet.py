"""The fleet: nodes, devices by class, replicas, and why something is not placed."""

import math
from collections import Counter
from collections.abc import Callable

from llmgw.control.metrics.family import (
    SETTLED,
    UNSETTLED,
    Figures,
    FleetFamily,
    NodeFamily,
    Samples,
)
from llmgw.control.metrics.onenode import OneNode
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import UNKNOWN, Tally
from llmgw.control.metrics.text import labelled, shown
from llmgw.model.availability import UNAVAILABLE
from llmgw.model.gateway import Gateway
from llmgw.model.node import LOST, READY, UNREACHABLE, WISHES, Node

LIVENESS = (READY, UNREACHABLE, LOST, UNKNOWN)

ON_STANDBY = "on a standby"
NOT_CONNECTED = (
    "for a node or gateway that has not connected since the control plane started, and for one "
    "without a certificate, on loopback"
)
NO_DEVICES = "for a class of which no node has a device, and " + UNSETTLED
NO_READING = "for a class of which no device has such a reading, and " + UNSETTLED

_CLASS = ("class",)

Read = Callable[[Snapshot, Tally], Samples]


def _by(labels: tuple[str, ...], counts: Counter[tuple[str, ...]]) -> Samples:
    return [(labelled(labels, values), count) for values, count in sorted(counts.items())]


def _nodes(seen: Snapshot, tally: Tally) -> Samples:
    states = (*LIVENESS, *sorted(tally.nodes.keys() - set(LIVENESS)))
    return [(f'state="{shown(state)}"', tally.nodes[state]) for state in states]


def _state(one: OneNode) -> Figures:
    now = one.room.node.liveness or UNKNOWN
    return [(f'{one.text},state="{state}"', int(state == now)) for state in LIVENESS]


def _wishes(seen: Snapshot, tally: Tally) -> Samples:
    return [(f'wish="{wish}"', tally.wishes[wish]) for wish in WISHES]


def _unhealthy_nodes(seen: Snapshot, tally: Tally) -> Samples:
    return [("", tally.unhealthy_nodes)]


def _certificates(value: Callable[[Node | Gateway], float | None]) -> Read:
    def read(seen: Snapshot, tally: Tally) -> Samples:
        holders: list[tuple[str, Node | Gateway]] = [("node", room.node) for room in seen.rooms]
        holders += [("gateway", gateway) for gateway in seen.gateways]
        for role, one in holders:
            at = value(one)
            if at is not None and math.isfinite(at):  # in plaintext there is none, and no end
                yield labelled(("role", "id"), (role, one.id)), at

    return read


def _classes(counts: Callable[[Tally], Counter[str]]) -> Callable[[Snapshot, Tally], Samples]:
    return lambda _, tally: [
        (f'class="{shown(name)}"', counts(tally)[name]) for name in sorted(tally.devices)
    ]


def _unavailable(seen: Snapshot, tally: Tally) -> Samples:
    for name in sorted(tally.devices):
        for reason in UNAVAILABLE:
            yield f'class="{shown(name)}",reason="{reason}"', tally.unavailable[name, reason]


def _busy(seen: Snapshot, tally: Tally) -> Samples:
    return [(f'class="{shown(name)}"', mean.value) for name, mean in sorted(tally.busy.items())]


def _work(seen: Snapshot, tally: Tally) -> Samples:
    for (name, source), mean in sorted(tally.work.items()):
        yield f'class="{shown(name)}",source="{source}"', mean.value


def _watts(seen: Snapshot, tally: Tally) -> Samples:
    return [(f'class="{shown(name)}"', watts) for name, watts in sorted(tally.watts.items())]


def _replicas(seen: Snapshot, tally: Tally) -> Samples:
    counts: Counter[tuple[str, ...]] = Counter(
        (one.model or UNKNOWN, one.state or UNKNOWN) for one in seen.replicas
    )
    return _by(("model", "state"), counts)


def _wanted(seen: Snapshot, tally: Tally) -> Samples:
    return [(f'model="{shown(route.model)}"', route.wanted) for route in seen.routes]


def _serving(seen: Snapshot, tally: Tally) -> Samples:
    for route in seen.routes:
        first = sum(not one.last_resort for one in route.endpoints)
        yield f'model="{shown(route.model)}"', first


def _refused(seen: Snapshot, tally: Tally) -> Samples:
    if seen.plan is None:
        return ()
    counts: Counter[tuple[str, ...]] = Counter({(route.model,): 0 for route in seen.routes})
    counts.update((refusal.model,) for refusal in seen.plan.refusals)
    return _by(("model",), counts)


def _refusals(seen: Snapshot, tally: Tally) -> Samples:
    counts: Counter[tuple[str, ...]] = Counter(
        (refusal.model, candidate.verdict.rule, candidate.verdict.kind)
        for refusal in (seen.plan.refusals if seen.plan else ())
        for candidate in refusal.candidates
    )
    return _by(("model", "reason", "kind"), counts)


FAMILIES = (
    FleetFamily(
        name="llmgw_nodes",
        labels=("state",),
        unit="nodes",
        help="Nodes by liveness; unknown: not heard of since the control plane started.",
        absent=UNSETTLED,
        by=SETTLED,
        read=_nodes,
    ),
    NodeFamily(
        name="llmgw_node_state",
        labels=("node", "state"),
        unit="0 or 1",
        help="1 for the liveness that a node has, 0 for the others.",
        absent=ON_STANDBY,
        read=_state,
    ),
    FleetFamily(
        name="llmgw_nodes_wished",
        labels=("wish",),
        unit="nodes",
        help="Nodes that are cordoned or draining.",
        absent=UNSETTLED,
        by=SETTLED,
        read=_wishes,
    ),
    FleetFamily(
        name="llmgw_nodes_unhealthy",
        unit="nodes",
        help="Nodes with a reason why something is wrong with them.",
        absent=UNSETTLED,
        by=SETTLED,
        read=_unhealthy_nodes,
    ),
    FleetFamily(
        name="llmgw_certificate_expiry_timestamp_seconds",
        labels=("role", "id"),
        unit="seconds since the epoch",
        help="When the certificate of a node or gateway ends.",
        absent=NOT_CONNECTED,
        read=_certificates(lambda one: one.certificate_ends),
    ),
    FleetFamily(
        name="llmgw_certificate_issued_timestamp_seconds",
        labels=("role", "id"),
        unit="seconds since the epoch",
        help="From when on the certificate of a node or gateway is good: it is renewed after two "
        "thirds of the time from then to its end.",
        absent=NOT_CONNECTED,
        read=_certificates(lambda one: one.certificate_begins),
    ),
    FleetFamily(
        name="llmgw_devices",
        labels=_CLASS,
        unit="devices",
        help="Devices that engines can be given, by class; those of lost nodes among them.",
        absent=NO_DEVICES,
        by=SETTLED,
        read=_classes(lambda tally: tally.devices),
    ),
    FleetFamily(
        name="llmgw_devices_in_use",
        labels=_CLASS,
        unit="devices",
        help="Devices that a live shard holds, healthy or not.",
        absent=NO_DEVICES,
        by=SETTLED,
        read=_classes(lambda tally: tally.in_use),
    ),
    FleetFamily(
        name="llmgw_devices_unhealthy",
        labels=_CLASS,
        unit="devices",
        help="Devices on which nothing can be placed, those that a shard still holds among them.",
        absent=NO_DEVICES,
        by=SETTLED,
        read=_classes(lambda tally: tally.unhealthy),
    ),
    FleetFamily(
        name="llmgw_devices_free",
        labels=_CLASS,
        unit="devices",
        help="Devices that are healthy and that nobody uses, on nodes that are ready and not "
        "cordoned.",
        absent=NO_DEVICES,
        by=SETTLED,
        read=_classes(lambda tally: tally.free),
    ),
    FleetFamily(
        name="llmgw_devices_unavailable",
        labels=(*_CLASS, "reason"),
        unit="devices",
        help="Devices that no shard holds and that are not free, each by the first reason of: away "
        "(its node is not ready), unhealthy, foreign (somebody else uses it), draining, cordoned. "
        "With those in use and those free they are all devices.",
        absent=NO_DEVICES,
        by=SETTLED,
        read=_unavailable,
    ),
    FleetFamily(
        name="llmgw_devices_busy_ratio",
        labels=_CLASS,
        unit="0 to 1",
        help="Mean share of time in which any kernel ran on a device of the class; not a measure "
        "of work.",
        absent=NO_READING,
        by=SETTLED,
        read=_busy,
    ),
    FleetFamily(
        name="llmgw_devices_work_ratio",
        labels=(*_CLASS, "source"),
        unit="0 to 1",
        help="Mean work of the devices of a class, apart by what it was read from: sm_active or "
        "power.",
        absent=NO_READING,
        by=SETTLED,
        read=_work,
    ),
    FleetFamily(
        name="llmgw_devices_power_watts",
        labels=_CLASS,
        unit="watts",
        help="Power that the devices of a class draw together; of cards that are cut into MIG "
        "instances once, under the class of the whole card.",
        absent=NO_READING,
        by=SETTLED,
        read=_watts,
    ),
    FleetFamily(
        name="llmgw_replicas",
        labels=("model", "state"),
        unit="replicas",
        help="Replicas by state.",
        absent="for a state that no replica of the model is in, and " + UNSETTLED,
        by=SETTLED,
        read=_replicas,
    ),
    FleetFamily(
        name="llmgw_replicas_wanted",
        labels=("model",),
        unit="replicas",
        help="Replicas that the catalog wants.",
        absent="for a model that is not in the catalog, and " + UNSETTLED,
        by=SETTLED,
        read=_wanted,
    ),
    FleetFamily(
        name="llmgw_replicas_serving",
        labels=("model",),
        unit="replicas",
        help="Replicas that requests go to; not those on lost nodes, which are the last resort.",
        absent="for a model that is not in the catalog, and " + UNSETTLED,
        by=SETTLED,
        read=_serving,
    ),
    FleetFamily(
        name="llmgw_replicas_refused",
        labels=("model",),
        unit="replicas",
        help="Replicas that are wanted and found no place in the last plan.",
        absent="before the first plan, and " + UNSETTLED,
        by=SETTLED,
        read=_refused,
    ),
    FleetFamily(
        name="llmgw_placement_refusals",
        labels=("model", "reason", "kind"),
        unit="nodes",
        help="Nodes that the last plan turned down for a wanted replica, by the rule that did; "
        "kind: not_now, not_unless_evicted or never.",
        absent="for a rule that turned nobody down, and " + UNSETTLED,
        by=SETTLED,
        read=_refusals,
    ),
)
