"""Which physical network a port is on: known by what it is, not by what a file calls it (FAB-1)."""

from collections.abc import Iterable

from llmgw.model.fabric import Port, SubnetManager

INFINIBAND = "InfiniBand"
ROCE = "RoCE"

_ACTIVE = "active"
_ETHERNET = "ethernet"


class Fabrics:
    """The InfiniBand fabrics that some machines tell of.

    Subnet managers that are listed together are on one fabric, whichever of them is master at the
    moment: two ports that see different ones during a fail-over are on it too.
    """

    def __init__(self, managers: Iterable[SubnetManager]) -> None:
        self._above: dict[str, str] = {}
        for one in managers:
            if one.master_guid is not None:
                self._join(one.guid, one.master_guid)

    def of(self, master: str) -> str:
        """Return the fabric of a master: the lowest GUID among its managers."""
        while (above := self._above.get(master, master)) != master:
            master = above
        return master

    def network(self, port: Port) -> str | None:
        """Return the network of a port, in words; None when it can't be told.

        An InfiniBand network is told by its subnet managers, a RoCE one by its IP network.
        """
        if is_ethernet(port):
            return f"{ROCE} {port.network}" if port.network else None
        return f"{INFINIBAND} {self.of(port.master_guid)}" if port.master_guid else None

    def _join(self, one: str, other: str) -> None:
        first, second = sorted((self.of(one), self.of(other)))
        self._above[second] = first


def is_active(port: Port) -> bool:
    """Say whether a port carries traffic: `4: ACTIVE`."""
    return _ACTIVE in (port.state or "").lower()


def is_ethernet(port: Port) -> bool:
    """Say whether a port is an Ethernet one: a RoCE port, if anything."""
    return (port.link_layer or "").lower() == _ETHERNET
