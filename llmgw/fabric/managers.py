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


def masters_of(managers: Iterable[SubnetManager]) -> dict[str, set[str]]:
    """Return who is master of each fabric: whom its ports see, and who calls itself so."""
    found: dict[str, set[str]] = {}
    for one in managers:
        if one.master_guid is not None:
            seen = found.setdefault(one.master_guid, {one.master_guid})
            if one.state == "master":
                seen.add(one.guid)
    return found
