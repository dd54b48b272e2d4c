"""A node's ports, the subnet managers they see, and its NVLink domain."""

from llmgw.fabric.managers import unknown_managers
from llmgw.model.condition import port_faults, port_network
from llmgw.model.fabric import NvlinkDomain, Port, SubnetManager
from llmgw_tui.draw.page import PageLine, Section, facts
from llmgw_tui.draw.seen import NodeSeen
from llmgw_tui.draw.states import ABSENT, DOWN, IDLE, SERVING, UNKNOWN, WARN, State
from llmgw_tui.draw.text import Piece, clean, fit, said, wrap

NAMES = 14
"""Cells of the first column."""
_KINDS = {"ACTIVE": SERVING, "DOWN": ABSENT, "INIT": WARN, "ARMED": WARN, "ACTIVE_DEFER": WARN}
_CALM = {"LinkUp", "Polling", "Disabled", "Sleep"}
"""Physical states that want nothing: up, or nothing is plugged in."""


def section(seen: NodeSeen, width: int) -> Section | None:
    """Return the ports' section; None when the node has no port and no NVLink domain."""
    inventory = seen.node.inventory
    lines: list[PageLine] = []
    for port in seen.ports:
        lines += _port(port, width, fell=_fell(port, seen))
    lines += [_manager(one) for one in inventory.subnet_managers or ()]
    for words in unknown_managers(inventory.subnet_managers, seen.ports):
        lines += facts("managers", clean(words), width, role="dim", width=NAMES)
    if inventory.nvlink_domain is not None:
        lines.append(_domain(inventory.nvlink_domain))
    return Section("Ports and fabrics", tuple(lines)) if lines else None


def _fell(port: Port, seen: NodeSeen) -> bool:
    """Say whether a port is one of those that the node's health says went down."""
    start = f"port {port.adapter}/{port.number} went down"
    return any(words.startswith(start) for words in seen.node.health)


def port_state(port: Port, *, fell: bool = False) -> State:
    """Return a port's state; the physical one where it says more.

    Args:
        port: it.
        fell: it carried traffic and does not: no port that nothing is plugged into.
    """
    if port.state is None:
        return State("unknown", UNKNOWN)
    word = clean(port.state).lower()
    physical = port.physical_state
    if physical is not None and physical != "LinkUp":
        word = f"{word}, {clean(physical).lower()}"
    kind = _KINDS.get(port.state, UNKNOWN)
    if fell:
        return State(word, DOWN)
    return State(word, kind if physical is None or physical in _CALM else WARN)


def _port(port: Port, width: int, *, fell: bool) -> list[PageLine]:
    name = said((clean(f"{port.adapter}/{port.number}"), "strong"))
    rate = "-" if port.rate is None else f"{port.rate / 1e9:.0f} Gb/s"
    interface = f" {port.interface}" if port.interface else ""
    layer = clean(f"{port.link_layer or '-'}{interface}")
    first = (
        *fit(name, NAMES),
        *fit(port_state(port, fell=fell).pieces, 18),
        *fit(said((rate, "absent" if port.rate is None else "text")), 10),
        *fit(said((layer, "dim")), 18),
        *said((clean(port_network(port)) or "-", "dim")),
    )
    lines = [PageLine(first)]
    faults = ", ".join(port_faults(port))
    for index, text in enumerate(wrap(clean(faults), max(8, width - NAMES - 8), most=3)):
        label = "errors " if not index else "       "
        lines.append(PageLine(said(" " * NAMES, (label, "dim"), text)))
    return lines


def _manager(seen: SubnetManager) -> PageLine:
    state = clean(seen.state or "state not known")
    role = State(state, SERVING if seen.state == "master" else IDLE if seen.state else UNKNOWN)
    priority = "" if seen.priority is None else f"  priority {seen.priority}"
    lid = "" if seen.lid is None else f"  lid {seen.lid}"
    through = f"  seen through {seen.adapter}" if seen.adapter else ""
    return PageLine(
        (
            *fit(said(("manager", "dim")), NAMES),
            *fit(role.pieces, 18),
            *said(clean(seen.guid), (clean(f"{priority}{lid}{through}"), "dim")),
        )
    )


def _domain(domain: NvlinkDomain) -> PageLine:
    runs = {True: "nvidia-imex runs", False: "nvidia-imex does not run"}
    words = runs.get(domain.imex_running) if domain.imex_running is not None else None
    channels = domain.imex_channels
    count = "" if channels is None else f", channels: {', '.join(channels) or 'none'}"
    name = "-" if domain.cluster_uuid is None else f"{domain.cluster_uuid}/{domain.clique_id}"
    pieces: list[Piece] = [*fit(said(("nvlink", "dim")), NAMES)]
    pieces += said(clean(name), "  ", (clean(f"{words or 'nvidia-imex: not known'}{count}"), "dim"))
    return PageLine(tuple(pieces))
