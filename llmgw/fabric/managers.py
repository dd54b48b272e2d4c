"""Which subnet managers a node still sees, and why others are not known."""

from collections.abc import Iterable, Iterator

from llmgw.model.fabric import Port, SubnetManager

_ACTIVE = "active"
_ETHERNET = "Ethernet"


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


def unknown_managers(
    managers: Iterable[SubnetManager] | None, ports: Iterable[Port]
) -> tuple[str, ...]:
    """Return in words why managers of a node's fabrics are not listed; empty where all are.

    Args:
        managers: those that the node tells of; None: it has not told yet.
        ports: its ports, as of its last heartbeat where it is heard.
    """
    return tuple(_unknown(managers, [port for port in ports if _on_fabric(port)]))


def _unknown(managers: Iterable[SubnetManager] | None, ports: list[Port]) -> Iterator[str]:
    listed = {one.master_guid for one in still_seen(managers or (), ports)}
    for guid in dict.fromkeys(port.master_guid for port in ports if port.master_guid is not None):
        if guid not in listed:
            yield f"master {guid}, others not known: no subnet administrator answers saquery"
    blind = ", ".join(f"{p.adapter}/{p.number}" for p in ports if p.master_guid is None)
    if blind and managers is None:
        yield f"not known of {blind}: sminfo was not run yet, or is not installed"
    elif blind:
        yield f"none known of {blind}: no master answers sminfo"


def _on_fabric(port: Port) -> bool:
    """Say whether a subnet manager has configured a port that carries traffic: RoCE has no LID."""
    active = port.state is not None and port.state.lower() == _ACTIVE
    return active and port.link_layer != _ETHERNET and port.lid is not None
