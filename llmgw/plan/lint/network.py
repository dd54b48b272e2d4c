"""Whether the shards of a replica of several nodes reach each other: by one physical network."""

from collections.abc import Iterator, Mapping, Sequence

from llmgw.model.device import MIG
from llmgw.model.fabric import Port
from llmgw.model.node import Node
from llmgw.model.record import Problem
from llmgw.plan.records import Assignment, NodeRoom, Observed, StartReplica

_Keys = frozenset[tuple[str, str]]


def span(
    path: str, step: StartReplica, observed: Observed, rooms: Mapping[str, NodeRoom]
) -> Iterator[Problem]:
    """Yield what is wrong with the way in which a replica's shards are joined."""
    shards = sorted(step.shards, key=lambda one: one.spec.rank)
    nodes = [rooms[one.node].node for one in shards if one.node in rooms]
    if len(nodes) != len(shards):
        return
    domains = {one.spec.nvlink_domain for one in shards}
    if len(shards) < 2:
        if domains - {None} or any(one.spec.rendezvous for one in shards):
            yield Problem(path=path, words=f"{step.replica} of one node is told to meet others")
        return
    if len({node.id for node in nodes}) < len(nodes):
        yield Problem(path=path, words=f"{step.replica} has two shards on one node")
    yield from _rendezvous(path, step.replica, shards, nodes)
    yield from _classes(path, step.replica, shards, nodes)
    if domains == {None}:
        yield from _one_network(path, step.replica, shards, nodes, observed)
    elif len(domains) > 1:
        yield Problem(path=path, words=f"{step.replica} has shards in several NVLink domains")
    else:
        for node in nodes:
            yield from _joined(path, node, next(iter(domains)) or "")


def _rendezvous(
    path: str, replica: str, shards: Sequence[Assignment], nodes: Sequence[Node]
) -> Iterator[Problem]:
    meetings = {one.spec.rendezvous for one in shards}
    meeting = next(iter(meetings))
    if len(meetings) > 1 or meeting is None:
        yield Problem(path=path, words=f"{replica}: its shards do not meet at one place")
    elif meeting.world != len(shards) or meeting.address != nodes[0].address:
        words = f"{replica}: {meeting.world} shards meet at {meeting.address}, not at its rank 0"
        yield Problem(path=path, words=words)
    elif meeting.nodes and meeting.nodes != tuple(node.id for node in nodes):
        words = f"{replica}: its shards are told to be on {', '.join(meeting.nodes)}"
        yield Problem(path=path, words=words)


def _classes(
    path: str, replica: str, shards: Sequence[Assignment], nodes: Sequence[Node]
) -> Iterator[Problem]:
    found = {
        device.device_class or "?"
        for one, node in zip(shards, nodes, strict=True)
        for device in node.inventory.devices or ()
        if device.uuid in one.spec.devices
    }
    if len(found) > 1:
        words = f"{replica} has devices of several classes: {', '.join(sorted(found))}"
        yield Problem(path=path, words=words)


def _one_network(
    path: str,
    replica: str,
    shards: Sequence[Assignment],
    nodes: Sequence[Node],
    observed: Observed,
) -> Iterator[Problem]:
    one_of = _same_fabric(observed)
    shared: _Keys | None = None
    for one, node in zip(shards, nodes, strict=True):
        listed = set(one.spec.network_ports)
        active = [
            port for port in node.inventory.ports or () if "active" in (port.state or "").lower()
        ]
        used = [p for p in active if not listed or f"{p.adapter}/{p.number}" in listed]
        keys = _keys(used, active, one_of)
        shared = keys if shared is None else shared & keys
        if listed and len(keys) != 1:
            words = f"{replica}: its ports on {node.id} are on {len(keys)} networks"
            yield Problem(path=path, words=words)
        yield from _torn(path, node, one_of)
    if not shared:
        names = ", ".join(node.id for node in nodes)
        yield Problem(path=path, words=f"{replica}: {names} share no physical network")


def _keys(ports: Sequence[Port], active: Sequence[Port], one_of: Mapping[str, str]) -> _Keys:
    """Return the networks of ports; only where none of the node can tell, what files call them."""
    if any(_key(port, one_of) is not None for port in active):
        return frozenset(key for port in ports if (key := _key(port, one_of)) is not None)
    return frozenset(("name", port.fabric) for port in ports if port.fabric)


def _key(port: Port, one_of: Mapping[str, str]) -> tuple[str, str] | None:
    if (port.link_layer or "").lower() == "ethernet":
        return ("ip", port.network) if port.network else None
    guid = port.master_guid
    return ("ib", one_of.get(guid, guid)) if guid else None


def _torn(path: str, node: Node, one_of: Mapping[str, str]) -> Iterator[Problem]:
    named: dict[str, set[tuple[str, str]]] = {}
    for port in node.inventory.ports or ():
        key = _key(port, one_of)
        if port.fabric and key is not None and "active" in (port.state or "").lower():
            named.setdefault(port.fabric, set()).add(key)
    for name, found in named.items():
        if len(found) > 1:
            words = f"{node.id}: its ports of fabric {name} are on {len(found)} networks"
            yield Problem(path=path, words=words)


def _same_fabric(observed: Observed) -> Mapping[str, str]:
    """Return one GUID for all managers that are listed together, by each of them."""
    groups: list[set[str]] = []
    for room in observed.nodes:
        for manager in room.node.inventory.subnet_managers or ():
            if manager.master_guid is None:
                continue
            joined = {manager.guid, manager.master_guid}
            apart = [group for group in groups if not group & joined]
            for group in groups:
                if group & joined:
                    joined |= group
            groups = [*apart, joined]
    return {guid: min(group) for group in groups for guid in group}


def _joined(path: str, node: Node, domain: str) -> Iterator[Problem]:
    """Yield what keeps a node out of the NVLink domain that its shard is told of."""
    inventory = node.inventory
    imex = inventory.nvlink_domain
    if imex is None or imex.imex_running is not True or not imex.imex_channels:
        yield Problem(path=path, words=f"{node.id}: nvidia-imex is not known to be up")
    if "nvlink_domain" not in (node.features or ()):
        yield Problem(path=path, words=f"{node.id}: its agent knows nothing of NVLink domains")
    for device in inventory.devices or ():
        fabric = device.nvlink
        if device.kind == MIG:
            continue
        there = fabric is not None and f"{fabric.cluster_uuid}/{fabric.clique_id}" == domain
        up = (
            fabric is not None
            and (fabric.state or "").lower() == "completed"
            and (fabric.status or "").lower() == "success"
        )
        if not there or not up or not domain.partition("/")[0].strip("0-"):
            words = f"{node.id}: {device.uuid} is not joined to the NVLink domain {domain}"
            yield Problem(path=path, words=words)
