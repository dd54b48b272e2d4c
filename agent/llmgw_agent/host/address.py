"""The address by which this machine is reached, found by asking the kernel for a route."""

import asyncio
import ipaddress
import socket

from llmgw.base.address import host_and_port
from llmgw.base.clock import Clock
from llmgw.model.node import NodeWarning
from llmgw_agent.host.patience import done_within

_TIMEOUT = 5.0


async def own_address(control_plane: str, clock: Clock) -> str | None:
    """Return the source address of the route to `host:port`; None when there is no route.

    A UDP socket is connected, which sends nothing.
    """
    host, port = host_and_port(control_plane)
    loop = asyncio.get_running_loop()
    asked = asyncio.ensure_future(loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM))
    try:
        if not await done_within(clock, asked, _TIMEOUT):
            return None
        for family, kind, protocol, _, address in asked.result():
            found = _source(family, kind, protocol, address)
            if found is not None:
                return found
    except OSError:
        return None
    finally:
        asked.cancel()
    return None


def disagreement(written: str, found: str | None, control_plane: str) -> NodeWarning | None:
    """Return what a person should know of an own address that is written; None: nothing.

    A name is not compared, and of a control plane on this machine the route tells nothing.
    """
    try:
        one, other = ipaddress.ip_address(written), ipaddress.ip_address(found or "")
    except ValueError:
        return None
    if one == other or other.is_loopback:
        return None
    words = f"its file says {one}, the route to {control_plane} leaves from {other}"
    return NodeWarning(subject="address", words=words)


def _source(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> str | None:
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None
