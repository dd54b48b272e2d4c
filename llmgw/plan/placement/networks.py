"""Which physical networks each node is on, and how well its ports reach them (PLC-7).

A node is on a set of networks: eight rails of one InfiniBand fabric and a RoCE network of the
storage are two. What a file calls a fabric joins nothing by itself: ports of one name on several
physical networks are a wrong cable or a wrong file, and refused. A node that can't tell its network
is kept apart from those that can: with others of the same name that can't either.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llmgw.fabric.identity import Fabrics, is_active, is_ethernet
from llmgw.fabric.nvlink import domain_of, why_not
from llmgw.model.commands import NVLINK_DOMAIN
from llmgw.model.device import MIG
from llmgw.model.fabric import Port
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.records import NEVER, NOT_NOW, Cable, Verdict
from llmgw.plan.words import some

RULE = "fabric"

NVLINK, INFINIBAND, ROCE, UNTOLD = KINDS = range(4)
"""Kinds of network, in the order in which they are taken."""

_SHOWN_OF_UUID = 8


class Network(NamedTuple):
    """One physical network; smaller ones are taken first."""

    kind: int
    name: str
    """What it is known by, in words: `InfiniBand 0x1`, `RoCE 10.0.0.0/24`; an NVLink domain's id;
    of nodes that can't tell, what their files call it."""

    @property
    def words(self) -> str:
        """Return what a sentence calls it."""
        if self.kind == NVLINK:
            cluster, _, clique = self.name.partition("/")
            return f"NVLink domain {cluster[:_SHOWN_OF_UUID]}/{clique}"
        return f"fabric {self.name}, which they can't tell" if self.kind == UNTOLD else self.name


@dataclass(frozen=True, slots=True)
class Attachment:
    """How a node is on a network."""

    ports: tuple[str, ...] = ()
    """`mlx5_0/1`."""
    adapters: frozenset[str] = frozenset()
    leaf: tuple[str, ...] = ()
    """The switches that its ports are plugged into; empty when not known."""
    short: bool = False
    """A cable trained below the rate of its kind, or it runs below that of most other nodes."""
    rate: int | None = None
    """Of its slowest port, in bit/s."""


Networks = Mapping[Network, Attachment]


class Wiring:
    """The networks of all nodes of a room, for one name of a fabric or for any.

    Args:
        room: with every node.
        fabric: what the profile calls the fabric that it wants; None: any network will do.
    """

    def __init__(self, room: Room, fabric: str | None) -> None:
        fabrics = fabrics_of(room.spaces.values())
        found = {name: networks_of(space, fabric, fabrics) for name, space in room.spaces.items()}
        self.refused = {name: one for name, one in found.items() if isinstance(one, Verdict)}
        there = {name: one for name, one in found.items() if not isinstance(one, Verdict)}
        usual = _usual_rates(there.values())
        self.of: dict[str, dict[Network, Attachment]] = {
            name: {
                network: _marked(attachment, usual.get(network))
                for network, attachment in networks.items()
            }
            for name, networks in there.items()
        }
        """By node, those that it may be placed on."""
        self.kinds = frozenset(network.kind for there in self.of.values() for network in there)


def wiring(room: Room, fabric: str | None) -> Wiring:
    """Return the networks of a room's nodes; worked out once a plan."""
    key = ("wiring", fabric)
    kept = room.kept.get(key)
    if not isinstance(kept, Wiring):
        kept = room.kept[key] = Wiring(room, fabric)
    return kept


def fabrics_of(spaces: Iterable[Space]) -> Fabrics:
    """Return the InfiniBand fabrics that nodes tell of together."""
    return Fabrics(
        manager for space in spaces for manager in space.node.inventory.subnet_managers or ()
    )


def networks_of(space: Space, fabric: str | None, fabrics: Fabrics) -> Networks | Verdict:
    """Return the networks that a node is on, or why it is on none, in words.

    A profile that names a fabric asks for ports of that name, also inside an NVLink domain.
    """
    ports = _on_ports(space, fabric, fabrics)
    if fabric is not None and isinstance(ports, Verdict):
        return ports
    domain = _domain(space)
    if domain is not None:
        joined = {Network(NVLINK, domain): Attachment(short=_degraded(space))}
        return joined if isinstance(ports, Verdict) else {**joined, **ports}
    if isinstance(ports, Verdict) and (why := _why_not_joined(space)) is not None:
        words = f"{ports.words}; not in an NVLink domain: {why}"
        return Verdict(kind=ports.kind, rule=RULE, words=words)
    return ports


def _domain(space: Space) -> str | None:
    """Return the NVLink domain that a node may be used in: its agent must be able to say so."""
    return _joined(space) if NVLINK_DOMAIN in (space.node.features or ()) else None


def _joined(space: Space) -> str | None:
    inventory = space.node.inventory
    cards = [one for one in inventory.devices or () if one.kind != MIG]
    return domain_of(cards, inventory.nvlink_domain)


def _why_not_joined(space: Space) -> str | None:
    """Return why a node of an NVLink rack can't be used in it; None for other nodes."""
    inventory = space.node.inventory
    if _joined(space) is not None:
        version = space.node.agent_version or "of an unknown version"
        return f"its agent ({version}) knows nothing of NVLink domains"
    fabrics = [one.nvlink for one in inventory.devices or () if one.nvlink is not None]
    if not any(one.cluster_uuid and one.cluster_uuid.strip("0-") for one in fabrics):
        return None
    reasons = (why_not(one, inventory.nvlink_domain) for one in fabrics)
    return next((why for why in reasons if why is not None), None)


def _degraded(space: Space) -> bool:
    devices = space.node.inventory.devices or ()
    return any(one.nvlink is not None and one.nvlink.health not in {None, "Healthy"}
               for one in devices)  # fmt: skip


def _on_ports(space: Space, fabric: str | None, fabrics: Fabrics) -> Networks | Verdict:
    node, wanted = space.node.id, f" of fabric {fabric}" if fabric else ""
    ports = space.node.inventory.ports
    if ports is None:
        return _refused(NOT_NOW, f"{node}: no data of its network ports yet")
    named = [port for port in ports if fabric in {None, port.fabric}]
    up = [port for port in named if is_active(port)]
    if not named:
        return _refused(NEVER, f"{node}: no network port{wanted}")
    if not up:
        states = some([f"{_name(one)} is {one.state or 'silent'}" for one in named])
        return _refused(NOT_NOW, f"{node}: no active network port{wanted}: {states}")
    torn = _torn(up, fabrics)
    if torn is not None:
        return _refused(NEVER, f"{node}: {torn}")
    by_network: dict[Network, list[Port]] = {}
    for port in up:
        network = _network(port, fabrics)
        if network is not None:
            by_network.setdefault(network, []).append(port)
    told = {network for network in by_network if network.kind != UNTOLD}
    if told:
        by_network = {network: by_network[network] for network in told}
    if not by_network:
        return _refused(NOT_NOW, f"{node}: can't say which network its ports{wanted} are on")
    cables = {(one.adapter, one.number): one for one in space.room.cables}
    return {network: _attachment(found, cables) for network, found in by_network.items()}


def _torn(up: Iterable[Port], fabrics: Fabrics) -> str | None:
    """Return in words that ports of one name are on several physical networks."""
    of_name: dict[str, set[str]] = {}
    for port in up:
        network = fabrics.network(port)
        if port.fabric and network is not None:
            of_name.setdefault(port.fabric, set()).add(network)
    for name, found in sorted(of_name.items()):
        if len(found) > 1:
            shown = ", ".join(sorted(found))
            return f"its ports of fabric {name} are on {len(found)} networks: {shown}"
    return None


def _network(port: Port, fabrics: Fabrics) -> Network | None:
    name = fabrics.network(port)
    if name is not None:
        return Network(ROCE if is_ethernet(port) else INFINIBAND, name)
    return Network(UNTOLD, port.fabric) if port.fabric else None


def _attachment(ports: Sequence[Port], cables: Mapping[tuple[str, int], Cable]) -> Attachment:
    known = [cables[key] for port in ports if (key := (port.adapter, port.number)) in cables]
    rates = [port.rate for port in ports if port.rate is not None]
    return Attachment(
        ports=tuple(sorted(_name(port) for port in ports)),
        adapters=frozenset(port.adapter for port in ports),
        leaf=tuple(sorted({one.leaf for one in known if one.leaf is not None})),
        short=any(one.trained_short for one in known),
        rate=min(rates, default=None),
    )


def _usual_rates(nodes: Iterable[Networks]) -> dict[Network, int]:
    """Return the rate that most nodes of each network have; of several the highest."""
    counts: dict[Network, Counter[int]] = {}
    for networks in nodes:
        for network, attachment in networks.items():
            if attachment.rate is not None:
                counts.setdefault(network, Counter())[attachment.rate] += 1
    return {
        network: max(found, key=lambda rate: (found[rate], rate))
        for network, found in counts.items()
    }


def _marked(attachment: Attachment, usual: int | None) -> Attachment:
    """Return how a node is on a network, short also where it is slower than most nodes are."""
    if attachment.short or usual is None or attachment.rate is None or attachment.rate >= usual:
        return attachment
    return Attachment(
        ports=attachment.ports,
        adapters=attachment.adapters,
        leaf=attachment.leaf,
        short=True,
        rate=attachment.rate,
    )


def _name(port: Port) -> str:
    return f"{port.adapter}/{port.number}"


def _refused(kind: str, words: str) -> Verdict:
    return Verdict(kind=kind, rule=RULE, words=words)
