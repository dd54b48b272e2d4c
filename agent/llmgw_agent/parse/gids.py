"""GIDs of a port, and which of them RoCE v2 traffic leaves from."""

import ipaddress
from collections.abc import Sequence

from llmgw.model.record import Record

V2 = "v2"


class Gid(Record, frozen=True, kw_only=True):
    """One place of a port's table of GIDs."""

    adapter: str
    number: int
    """Of the port."""
    index: int
    gid: str
    """Eight groups of hexadecimal digits."""
    address: str | None = None
    """The IPv4 address that the GID stands for; None: for an IPv6 address or none."""
    version: str | None = None
    """Of RoCE: `v1` or `v2`. InfiniBand has only the first."""
    interface: str | None = None
    """The network interface that has the address."""


def ipv4_of(gid: str) -> str | None:
    """Return the IPv4 address that a GID maps; None when it is of another kind or none."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return None if mapped is None else str(mapped)


def roce_v2(gids: Sequence[Gid]) -> Gid | None:
    """Return the GID of a port's RoCE v2 address; None: it has no address that can be routed.

    IPv4 comes first, then the interface that the first GID names before a VLAN on it, then the
    lowest index. Link-local addresses, with which tables begin, don't count.

    Args:
        gids: of one port, by index.
    """
    routable = [gid for gid in gids if gid.version == V2 and not _local(gid)]
    own = gids[0].interface if gids else None
    return min(
        routable,
        key=lambda gid: (gid.address is None, gid.interface != own, gid.index),
        default=None,
    )


def _local(gid: Gid) -> bool:
    try:
        return ipaddress.ip_address(gid.address or gid.gid).is_link_local
    except ValueError:
        return True
