"""Devices that reach each other well, and nodes that share one physical network."""

from collections.abc import Iterable, Mapping, Sequence

from llmgw.model.device import Device
from llmgw.model.fabric import Port
from llmgw.model.node import Node
from llmgw.plan.records import NEVER, NOT_NOW, Verdict
from llmgw.plan.words import some

RULE = "fabric"
_ACTIVE = "ACTIVE"
_ETHERNET = "ethernet"


def together(
    free: Sequence[Device], count: int, links: Mapping[str, float] | None = None
) -> tuple[Device, ...]:
    """Return `count` of the free devices: NVLink peers first, then those of one NUMA node.

    Of groups that are as near to each other, the one with the fewest slow links is taken (`links`:
    the share that each device with a slow one has).

    `free` is long enough and in the order in which devices are given out; where nothing is known of
    peers the first of them win.
    """
    if count >= len(free) or count <= 1:
        return tuple(free[:count])
    groups = (_around(seed, free, count) for seed in free)
    return min(groups, key=lambda group: _distance(group, links or {}))


def fabric_of(node: Node, name: str | None) -> str | Verdict:
    """Return what tells a node's physical network from others, or why it has none, in words.

    An InfiniBand network is told by its master subnet manager, a RoCE one by its IP network.

    Args:
        node: the node.
        name: only ports of the fabric that the configuration calls so; None: any.
    """
    ports = node.inventory.ports
    wanted = f" of fabric {name}" if name else ""
    if ports is None:
        return _refused(NOT_NOW, f"{node.id}: no data of its network ports yet")
    named = [port for port in ports if name in {None, port.fabric}]
    up = [port for port in named if _ACTIVE in (port.state or "").upper()]
    if not up and named:
        states = some([f"{one.adapter}/{one.number} is {one.state or 'silent'}" for one in named])
        return _refused(NOT_NOW, f"{node.id}: no active network port{wanted}: {states}")
    if not up:
        return _refused(NEVER, f"{node.id}: no network port{wanted}")
    found = sorted({key for port in up if (key := _network(port)) is not None})
    if not found:
        return _refused(NOT_NOW, f"{node.id}: can't say which network its ports{wanted} are on")
    if len(found) > 1:
        return _refused(
            NEVER, f"{node.id}: its ports{wanted} are on {len(found)} networks: {', '.join(found)}"
        )
    return found[0]


def _network(port: Port) -> str | None:
    if (port.link_layer or "").lower() == _ETHERNET:
        return f"RoCE {port.network}" if port.network else None
    return f"InfiniBand {port.master_guid}" if port.master_guid else None


def _refused(kind: str, words: str) -> Verdict:
    return Verdict(kind=kind, rule=RULE, words=words)


def _around(seed: Device, free: Iterable[Device], count: int) -> tuple[Device, ...]:
    peers = set(seed.nvlink_peers or ())
    order = {device.uuid: place for place, device in enumerate(free)}
    near = sorted(
        free,
        key=lambda other: (
            other is not seed,
            other.uuid not in peers,
            other.numa_node != seed.numa_node,
            order[other.uuid],
        ),
    )
    return tuple(sorted(near[:count], key=lambda device: order[device.uuid]))


def _distance(group: Sequence[Device], links: Mapping[str, float]) -> tuple[int, int, float, int]:
    """Return how bad a group is: pairs without NVLink, NUMA nodes, slow links, numbers spread."""
    peers = [set(device.nvlink_peers or ()) for device in group]
    apart = sum(
        1
        for place, device in enumerate(group)
        for other in range(place)
        if device.uuid not in peers[other]
    )
    numbers = [device.number or 0 for device in group]
    slow = sum(1.0 - links.get(device.uuid, 1.0) for device in group)
    return apart, len({device.numa_node for device in group}), slow, sum(numbers)
