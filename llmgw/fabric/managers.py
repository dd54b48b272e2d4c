"""Which subnet managers a node still sees."""

from collections.abc import Iterable

from llmgw.model.fabric import Port, SubnetManager

_ACTIVE = "active"


def masters(ports: Iterable[Port]) -> frozenset[str]:
    """Return the GUIDs of the masters that ports see which carry traffic."""
    return frozenset(
        port.master_guid
        for port in ports
        if port.master_guid is not None and (port.state is None or _ACTIVE in port.state.lower())
    )


def still_seen(
    managers: Iterable[SubnetManager], ports: Iterable[Port]
) -> tuple[SubnetManager, ...]:
    """Return the managers of fabrics whose master an active port sees.

    A manager is told of through the master of its fabric: once no port sees that, nobody knows
    whether either is still there.
    """
    seen = masters(ports)
    return tuple(one for one in managers if one.master_guid in seen)
