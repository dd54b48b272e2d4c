"""/proc/net/route and /proc/net/if_inet6: the IP networks that interfaces are directly on."""

import ipaddress
import re
from collections.abc import Sequence

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record

_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200
"""Flags of a route, from linux/route.h."""

_HEX32 = re.compile(r"[0-9A-Fa-f]{8}\Z")
_HEX128 = re.compile(r"[0-9a-f]{32}\Z")
_FLAGS = re.compile(r"[0-9A-Fa-f]{1,8}\Z")
_LINK_SCOPE = "20"


class Network(Record, frozen=True, kw_only=True):
    """A network that an interface is on: `10.1.2.0/24`."""

    interface: str
    network: str


def read_routes(text: str) -> tuple[Network, ...]:
    """Return the IPv4 networks of /proc/net/route that are reached without a gateway.

    Addresses there are in the processor's byte order: little-endian on all that this runs on.

    Raises:
        Unreadable: it does not begin with the names of its columns.
    """
    lines = text.splitlines()
    if not lines:
        return ()
    if lines[0].split()[:3] != ["Iface", "Destination", "Gateway"]:
        raise Unreadable(f"/proc/net/route: {lines[0][:80]!r} does not name its columns")
    found = (_route(line.split()) for line in lines[1:])
    return tuple(network for network in found if network is not None)


def _route(fields: Sequence[str]) -> Network | None:
    if len(fields) < 8 or not _FLAGS.match(fields[3]):
        return None
    destination, mask = _ipv4(fields[1]), _ipv4(fields[7])
    flags = int(fields[3], 16)
    if destination is None or mask is None or flags & (_UP | _GATEWAY | _REJECT) != _UP:
        return None
    return _network(fields[0], f"{destination}/{mask}")


def read_inet6(text: str) -> tuple[Network, ...]:
    """Return the IPv6 networks of the addresses of /proc/net/if_inet6, link-local ones left out.

    A line is address, interface's index, prefix length, scope and flags in hexadecimal digits, and
    the interface; one that is not costs itself.
    """
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 6 or not _HEX128.match(fields[0]) or fields[3] == _LINK_SCOPE:
            continue
        prefix = int(fields[2], 16) if _FLAGS.match(fields[2]) else -1
        address = ipaddress.IPv6Address(int(fields[0], 16))
        network = _network(fields[5], f"{address}/{prefix}")
        if network is not None:
            found.append(network)
    return tuple(found)


def network_of(address: str, interface: str, networks: Sequence[Network]) -> str | None:
    """Return the network of an interface that an address is of, the narrowest; None: none is."""
    try:
        one = ipaddress.ip_address(address)
    except ValueError:
        return None
    named = [ipaddress.ip_network(n.network) for n in networks if n.interface == interface]
    # A route to everything is no network that the interface is on.
    around = [network for network in named if one in network and network.prefixlen]
    return str(max(around, key=lambda network: network.prefixlen)) if around else None


def _ipv4(text: str) -> ipaddress.IPv4Address | None:
    if not _HEX32.match(text):
        return None
    return ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(text), "little"))


def _network(interface: str, text: str) -> Network | None:
    try:
        return Network(interface=interface, network=str(ipaddress.ip_network(text, strict=False)))
    except ValueError:
        return None
