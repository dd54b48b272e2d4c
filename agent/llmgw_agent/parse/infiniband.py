"""/sys/class/infiniband: ports of InfiniBand and RoCE adapters, as the kernel tells them.

What the files hold is described in the kernel's Documentation/ABI/stable/sysfs-class-infiniband.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from llmgw.model.fabric import Port, PortCounter
from llmgw_agent.parse import ib_values
from llmgw_agent.parse.gids import Gid, ipv4_of, roce_v2
from llmgw_agent.parse.ib_values import ETHERNET, whole
from llmgw_agent.parse.networks import Network, network_of
from llmgw_agent.parse.tool import Tool
from llmgw_agent.parse.tree import branches, read_tree

READINGS = (
    *("ports/*/state", "ports/*/phys_state", "ports/*/rate", "ports/*/lid"),
    *("ports/*/counters/*", "ports/*/hw_counters/*"),
)
"""Files of an adapter that change, as patterns."""

_SHOWN_GIDS = ("?", "1?", "2?")

IDENTITY = (
    "node_guid",
    "ports/*/link_layer",
    "device/net/*/dev_port",
    *(f"ports/*/gids/{index}" for index in _SHOWN_GIDS),
    *(f"ports/*/gid_attrs/types/{index}" for index in _SHOWN_GIDS),
    *(f"ports/*/gid_attrs/ndevs/{index}" for index in _SHOWN_GIDS),
)
"""Files of an adapter that tell what it is and how it is addressed, as patterns.

A table of GIDs has 256 places, filled from the front: the first thirty are read.
"""

CEILINGS: Mapping[str, int] = {
    name: (1 << bits) - 1
    for bits, counters in (
        (4, ("local_link_integrity_errors", "excessive_buffer_overrun_errors")),
        (8, ("link_error_recovery", "link_downed")),
        (8, ("port_xmit_constraint_errors", "port_rcv_constraint_errors")),
        (16, ("symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors")),
        (16, ("port_rcv_switch_relay_errors", "port_xmit_discards", "VL15_dropped")),
        (32, ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")),
        (32, ("port_xmit_wait",)),
    )
    for name in counters
}
"""The most that a counter can hold. It stays there until somebody resets it.

Widths are those of attribute PortCounters in the InfiniBand Architecture Specification, volume 1,
section 16.1.3.5, which `drivers/infiniband/core/sysfs.c` reads. Data and packets have 64 bits
where the adapter counts them so (PortCountersExtended), and never stand at their most then.
"""

_MOST_NUMBER = 255
"""A port's number has eight bits."""
_VERSIONS = {"IB/RoCE v1": "v1", "RoCE v2": "v2"}

_NO_COUNTERS = frozenset({"lifespan"})
"""In hw_counters, but a setting: milliseconds for which the driver repeats what it read."""


def read_ports(files: Mapping[str, str], networks: Sequence[Network] = ()) -> tuple[Port, ...]:
    """Return the ports of all adapters of a tree whose top are the adapters.

    Args:
        files: contents by path: `mlx5_0/ports/1/state`.
        networks: of this machine's interfaces; empty: not known.
    """
    found = (
        port
        for adapter, below in branches(files).items()
        for port in _ports_of(adapter, below, networks)
    )
    return ib_values.in_order(found)


def identity_of(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of one adapter that don't change with every reading."""
    return {
        path: text
        for path, text in files.items()
        if not any(fnmatchcase(path, pattern) for pattern in READINGS)
    }


def _ports_of(
    adapter: str, files: Mapping[str, str], networks: Sequence[Network]
) -> Iterator[Port]:
    at_top = branches(files)
    ports = branches(at_top.get("ports", {}))
    for name, below in ports.items():
        number = whole(name)
        if number is None or number > _MOST_NUMBER:
            continue
        gids = _gids(adapter, number, below)
        port = _port(adapter, number, below)
        yield msgspec.structs.replace(
            port,
            node_guid=ib_values.guid(files.get("node_guid")),
            interface=_interface(gids, number, at_top.get("device", {}), alone=len(ports) == 1),
            network=_network(gids, networks) if port.link_layer == ETHERNET else None,
        )


def _port(adapter: str, number: int, files: Mapping[str, str]) -> Port:
    state = ib_values.state(files.get("state"))
    physical = ib_values.physical_state(files.get("phys_state"))
    return Port(
        adapter=adapter,
        number=number,
        link_layer=ib_values.link_layer(files.get("link_layer")),
        state=state,
        physical_state=physical,
        rate=ib_values.rate(files.get("rate"), state, physical),
        lid=ib_values.lid(files.get("lid")),
        port_guid=ib_values.port_guid(files.get("gids/0")),
        counters=_counters(files),
    )


def _counters(files: Mapping[str, str]) -> tuple[PortCounter, ...] | None:
    """Return the counters that have a value: `N/A (no PMA)` is none."""
    found: dict[str, PortCounter] = {}
    for path, text in files.items():
        directory, _, name = path.partition("/")
        value = whole(text)
        if directory not in {"counters", "hw_counters"} or name in found or name in _NO_COUNTERS:
            continue
        if value is not None:
            ceiling = CEILINGS.get(name)
            at_ceiling = None if ceiling is None else value == ceiling
            found[name] = PortCounter(name=name, value=value, at_ceiling=at_ceiling)
    return tuple(found.values()) or None


def _gids(adapter: str, number: int, files: Mapping[str, str]) -> tuple[Gid, ...]:
    found = []
    for path, text in files.items():
        directory, _, place = path.partition("/")
        index = whole(place)
        if directory == "gids" and index is not None and text.strip("0:"):
            kind = files.get(f"gid_attrs/types/{place}", "")
            found.append(
                Gid(
                    adapter=adapter,
                    number=number,
                    index=index,
                    gid=text,
                    address=ipv4_of(text),
                    version=_VERSIONS.get(kind),
                    interface=files.get(f"gid_attrs/ndevs/{place}") or None,
                )
            )
    return tuple(sorted(found, key=lambda gid: gid.index))


def _interface(
    gids: Sequence[Gid], number: int, device: Mapping[str, str], *, alone: bool
) -> str | None:
    """Return the port's network interface.

    GIDs of RoCE name it. IPoIB has one an adapter and port, told by its dev_port, which counts from
    0; a further partition's (`ib0.8001`) is not it.
    """
    if gids and gids[0].interface is not None:
        return gids[0].interface
    named = [
        (len(name), name)
        for path, text in device.items()
        for directory, _, name in (path.removesuffix("/dev_port").partition("/"),)
        if directory == "net" and (alone or whole(text) == number - 1)
    ]
    return min(named)[1] if named else None


def _network(gids: Sequence[Gid], networks: Sequence[Network]) -> str | None:
    gid = roce_v2(gids)
    if gid is None or gid.interface is None:
        return None
    return network_of(gid.address or gid.gid, gid.interface, networks)


_LISTING = (
    "cd /sys/class/infiniband && for f in */node_guid */device/net/*/dev_port */ports/*/*"
    " */ports/*/*counters/* */ports/*/gids/[0-9] */ports/*/gid_attrs/*/[0-9];"
    r""" do [ -f "$f" ] && printf '%s\t%s\n' "$f" "$(cat "$f")"; done 2>/dev/null"""
)

TOOLS = (Tool("sys-class-infiniband", how=_LISTING, read=lambda text: read_ports(read_tree(text))),)
