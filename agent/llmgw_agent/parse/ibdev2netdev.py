"""`ibdev2netdev` of MLNX_OFED and DOCA: the network interface of each port."""

import re

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.tool import Tool

_LINE = re.compile(
    r"(?P<adapter>\S+)\s+port\s+(?P<number>[0-9]{1,3})\s+==>\s+(?P<interface>\S+)"
    r"(?:\s+\((?P<state>\w+)\))?"
)
_UP = {"Up": True, "Down": False}


class PortInterface(Record, frozen=True, kw_only=True):
    """A port and its network interface."""

    adapter: str
    number: int
    interface: str
    up: bool | None = None
    """Of the interface, not of the port: one of IPoIB without an address is down, and its port
    carries RDMA all the same."""


def read_ibdev2netdev(text: str) -> tuple[PortInterface, ...]:
    """Return the ports in the order of the text, which sorts mlx5_10 before mlx5_2.

    Raises:
        Unreadable: there is text, and no line of it is a port.
    """
    found = tuple(
        PortInterface(
            adapter=match["adapter"],
            number=int(match["number"]),
            interface=match["interface"],
            up=_UP.get(match["state"] or ""),
        )
        for line in text.splitlines()
        if (match := _LINE.match(line.strip())) is not None
    )
    if not found and text.strip():
        raise Unreadable(f"ibdev2netdev: {text.strip().splitlines()[0][:80]!r} is no port")
    return found


TOOLS = (Tool("ibdev2netdev", how="ibdev2netdev", read=read_ibdev2netdev),)
