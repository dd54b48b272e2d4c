"""Ports, the fabrics that they are plugged into, and NVLink domains.

A fabric is named by its master subnet manager's GUID, or by the IP network of RoCE.
"""

from collections.abc import Iterator

from llmgw.control.metrics.devices import NODE_GONE
from llmgw.control.metrics.family import (
    COUNTER,
    SETTLED,
    UNSETTLED,
    Figures,
    FleetFamily,
    NodeFamily,
    Samples,
)
from llmgw.control.metrics.onenode import DEVICE, OneNode
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import FabricSeen, Tally
from llmgw.control.metrics.text import labelled, shown
from llmgw.fabric.nvlink import is_cluster, joined

NOT_READ = "the node has no such port, can't read it, or was not heard of for a minute"
NO_FABRIC = (
    "for a fabric that no port of a node that is there is on, and for one whose master no port has "
    "seen for a minute; " + UNSETTLED
)
NO_MANAGERS = (
    "for RoCE, when no node can list its subnet managers or no port sees its master any more, and "
    + UNSETTLED
)
NO_IMEX = "the node has no NVLink domain and no such service, it is not known, or " + NODE_GONE

_PORT = ("node", "adapter", "port")
_STATE = ("state", "phys_state", "link_layer")
_FABRIC = ("fabric",)


def _active(node: OneNode) -> Figures:
    for text, port in node.ports:
        if port.state is not None:
            said = (port.state, port.physical_state or "", port.link_layer or "")
            yield f"{text},{labelled(_STATE, said)}", int(port.state.lower() == "active")


def _rate(node: OneNode) -> Figures:
    for text, port in node.ports:
        yield text, None if port.rate is None else port.rate / 1e9


def _counters(node: OneNode) -> Figures:
    found: list[tuple[str, float | None]] = []
    for text, port in node.ports:
        told = {shown(one.name): one.value for one in port.counters or ()}
        found += [(f'{text},counter="{name}"', value) for name, value in told.items()]
    return found


def _flaps(node: OneNode) -> Figures:
    """Yield the totals that the control plane keeps, which go on where a port begins anew."""
    for text, port in node.ports:
        yield text, node.flaps.get(f"{port.adapter}/{port.number}")


def _port_masters(node: OneNode) -> Figures:
    for text, port in node.ports:
        if port.master_guid is not None:
            yield f'{text},fabric="{shown(port.master_guid)}"', 1


def _joined(node: OneNode) -> Figures:
    domain = node.room.node.inventory.nvlink_domain
    for text, device in node.devices:
        said = device.nvlink
        cluster = said.cluster_uuid if said is not None else None
        # A cluster of zeros is a single machine's NVSwitch: no domain, joined or not.
        if said is not None and cluster is not None and is_cluster(cluster):
            clique = "" if said.clique_id is None else str(said.clique_id)
            labels = f'cluster_uuid="{shown(cluster)}",clique="{clique}"'
            is_in = joined(said, domain)
            yield f"{text},{labels}", None if is_in is None else int(is_in)


def _imex(node: OneNode) -> Figures:
    domain = node.room.node.inventory.nvlink_domain if node.there else None
    if domain is not None and domain.imex_running is not None:
        yield node.text, int(domain.imex_running)


def _channels(node: OneNode) -> Figures:
    domain = node.room.node.inventory.nvlink_domain if node.there else None
    if domain is not None and domain.imex_channels is not None:
        yield node.text, len(domain.imex_channels)


def _fabrics(tally: Tally) -> Iterator[tuple[str, FabricSeen]]:
    for name, fabric in sorted(tally.fabrics.items()):
        yield f'fabric="{shown(name)}"', fabric


def _nodes(seen: Snapshot, tally: Tally) -> Samples:
    return [(text, len(fabric.nodes)) for text, fabric in _fabrics(tally)]


def _weights(seen: Snapshot, tally: Tally) -> Samples:
    return [(text, sum(fabric.weights.values())) for text, fabric in _fabrics(tally)]


def _masters(seen: Snapshot, tally: Tally) -> Samples:
    for text, fabric in _fabrics(tally):
        for guid in sorted(fabric.all_masters):
            yield f'{text},guid="{shown(guid)}"', 1


def _managers(seen: Snapshot, tally: Tally) -> Samples:
    for text, fabric in _fabrics(tally):
        yield text, len(fabric.managers) or None


def _problems(seen: Snapshot, tally: Tally) -> Samples:
    for text, fabric in _fabrics(tally):
        standbys = sum(state == "standby" for state in fabric.managers.values())
        if fabric.all_masters:
            yield f'{text},problem="several_masters"', len(fabric.all_masters) - 1
        if fabric.managers:
            yield f'{text},problem="no_standby"', int(not standbys)


FAMILIES = (
    NodeFamily(
        name="llmgw_ib_port_active",
        labels=(*_PORT, *_STATE),
        unit="0 or 1",
        help="Whether a port carries traffic; InfiniBand and RoCE.",
        absent=NOT_READ,
        read=_active,
    ),
    NodeFamily(
        name="llmgw_ib_port_rate_gbps",
        labels=_PORT,
        unit="Gbit/s",
        help="Rate of a port's link, as its link was trained.",
        absent=NOT_READ,
        read=_rate,
    ),
    NodeFamily(
        name="llmgw_ib_port_counter_total",
        kind=COUNTER,
        labels=(*_PORT, "counter"),
        unit="-",
        help="A port's own counters, as its files in sysfs give names and values: port_rcv_data "
        "and port_xmit_data count words of 4 bytes, and some stop at the most that they can hold.",
        absent=NOT_READ,
        read=_counters,
        note="`promtool check metrics` says of it `metric name should not include type 'counter'`, "
        "and of no other family anything. The name is meant: `counter` is what a port calls these, "
        "and the label names which. Nothing is wrong with the page; let a check that fails on any "
        "complaint pass over this one.",
    ),
    NodeFamily(
        name="llmgw_ib_port_flaps_total",
        kind=COUNTER,
        labels=_PORT,
        unit="-",
        help="How often a port's link went down since it was first heard of: by its link_downed, "
        "or by its state where it has none or that stands at its most. Kept over restarts.",
        absent=NOT_READ,
        read=_flaps,
    ),
    NodeFamily(
        name="llmgw_ib_port_master",
        labels=(*_PORT, *_FABRIC),
        unit="1",
        help="1 for a port that sees a master subnet manager; fabric: that one's GUID.",
        absent="it sees none, is of RoCE, or " + NOT_READ,
        read=_port_masters,
    ),
    NodeFamily(
        name="llmgw_gpu_nvlink_joined",
        labels=(*DEVICE, "cluster_uuid", "clique"),
        unit="0 or 1",
        help="Whether a device has joined an NVLink domain of several machines: its fabric is "
        "complete, and nvidia-imex runs on its node and has a channel.",
        absent="it is in none, a single machine's NVSwitch being none; something of it is not "
        "known; or " + NODE_GONE,
        read=_joined,
    ),
    NodeFamily(
        name="llmgw_imex_up",
        labels=("node",),
        unit="0 or 1",
        help="Whether nvidia-imex runs, without which an NVLink domain carries nothing.",
        absent=NO_IMEX,
        read=_imex,
    ),
    NodeFamily(
        name="llmgw_imex_channels",
        labels=("node",),
        unit="channels",
        help="Channels of nvidia-imex on a node; without one its devices reach no other machine.",
        absent=NO_IMEX,
        read=_channels,
    ),
    FleetFamily(
        name="llmgw_fabric_nodes",
        labels=_FABRIC,
        unit="nodes",
        help="Nodes with a port on a fabric.",
        absent=NO_FABRIC,
        by=SETTLED,
        read=_nodes,
    ),
    FleetFamily(
        name="llmgw_fabric_weights_bytes",
        labels=_FABRIC,
        unit="bytes",
        help="Weights that nodes on a fabric hold whole, each set of weights counted once.",
        absent=NO_FABRIC,
        by=SETTLED,
        read=_weights,
    ),
    FleetFamily(
        name="llmgw_fabric_master_sm",
        labels=("fabric", "guid"),
        unit="1",
        help="1 for each subnet manager that is master of a fabric; there should be one.",
        absent="for RoCE, when no port sees one any more, and " + UNSETTLED,
        by=SETTLED,
        read=_masters,
    ),
    FleetFamily(
        name="llmgw_fabric_subnet_managers",
        labels=_FABRIC,
        unit="subnet managers",
        help="Subnet managers of a fabric, the master among them.",
        absent=NO_MANAGERS,
        by=SETTLED,
        read=_managers,
    ),
    FleetFamily(
        name="llmgw_fabric_problems",
        labels=("fabric", "problem"),
        unit="-",
        help="What is wrong with a fabric; problem: several_masters, how many too many, or "
        "no_standby.",
        absent=NO_MANAGERS,
        by=SETTLED,
        read=_problems,
    ),
)
