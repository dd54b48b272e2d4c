"""A port for an engine, from the range that the agent was given."""

import socket
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

from llmgw.base.errors import Usage


@dataclass(frozen=True, slots=True)
class PortRange:
    """Ports from `first` to `last`, both in it."""

    first: int
    last: int

    @staticmethod
    def parse(text: str) -> "PortRange":
        """Return the range of `7500-7999` or of one port.

        Raises:
            Usage: it is none.
        """
        low, _, high = text.partition("-")
        try:
            ports = PortRange(int(low), int(high or low))
        except ValueError:
            ports = PortRange(0, 0)
        if not 0 < ports.first <= ports.last <= 65535:
            raise Usage(f"{text!r} is not a range of ports", hint="write it like 7500-7999")
        return ports


def choose_port(
    ports: PortRange, shard: str, taken: Collection[int], free: Callable[[int], bool]
) -> int | None:
    """Return a port that nobody is known to hold; None when there is none.

    Each shard begins at a place of its own in the range: agents that share a machine and a range,
    and look at the same moment, would otherwise all find the same port free.
    """
    count = ports.last - ports.first + 1
    start = zlib.crc32(shard.encode()) % count
    for step in range(count):
        port = ports.first + (start + step) % count
        if port not in taken and free(port):
            return port
    return None


def is_free(host: str, port: int) -> bool:
    """Say whether a port could be listened on at this moment."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: connections that linger after a close are no reason to refuse.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
