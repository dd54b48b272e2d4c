"""One node's page: how it is and was, what it has, what runs on it."""

from collections.abc import Sequence

from llmgw.base.units import show_bytes
from llmgw.model import shard
from llmgw.model.node import READY, Filesystem
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.trouble import of_machine, probe_troubles
from llmgw_tui.draw import devices, fabric, measures, sources, trends
from llmgw_tui.draw.page import (
    PageLine,
    Section,
    beside,
    fact,
    facts,
    gap_for,
    halves,
    linked,
    stack,
)
from llmgw_tui.draw.places import REPLICA, Place
from llmgw_tui.draw.seen import NodeSeen, When, progress_words
from llmgw_tui.draw.states import WARN, engine_state, shard_state
from llmgw_tui.draw.text import Piece, Pieces, clean, fit, said
from llmgw_tui.draw.trends import Choice, Trends

TWO_COLUMNS = 112


def page(
    seen: NodeSeen,
    when: When,
    width: int,
    height: int,
    *,
    past: Trends | None = None,
    choice: Choice = Choice(),  # noqa: B008  a tuple, which nothing can change
) -> list[PageLine]:
    """Return the page of a node, in two columns where there is room for them.

    Args:
        seen: the node.
        when: now.
        width: cells.
        height: lines that show at once.
        past: how it was; None: nobody asked.
        choice: what of its past is looked at.
    """
    charts = None if past is None else trends.section(seen, past, choice, when, width)
    below = (
        _replicas(seen, width), devices.section(seen, when, width), charts,
        devices.health(seen, when, width), fabric.section(seen, width),
    )  # fmt: skip
    last = (sources.probes(seen, width),)
    if width < TWO_COLUMNS:
        order = (
            _state(seen, when, width), _load(seen, width), *below, _engines(seen, width),
            *_disks(seen, width), _machine(seen, width), sources.sensors(seen), *last,
        )  # fmt: skip
        return stack(order, width, gap_for(height))
    left, right = halves(width)
    first = (_state(seen, when, left), _machine(seen, left))
    second = (
        _load(seen, right), *_disks(seen, right), _engines(seen, right), sources.sensors(seen),
    )  # fmt: skip
    upper = beside(
        stack(first, left),
        stack(second, right),
        (left, right),
    )
    rest = stack((*below, *last), width)
    return [*upper, PageLine(), *rest] if rest else upper


def charts_at(lines: Sequence[PageLine]) -> range:
    """Return which lines of a page are its charts; empty when it has none."""
    titles = [
        index for index, line in enumerate(lines) if line.pieces and line.pieces[0].role == "title"
    ]
    for index, start in enumerate(titles):
        if lines[start].pieces[0].text.startswith(trends.TITLE):
            end = titles[index + 1] if index + 1 < len(titles) else len(lines)
            return range(start, end)
    return range(0)


def _state(seen: NodeSeen, when: When, width: int) -> Section:
    node = seen.node
    lines = [fact("state", *seen.state.pieces, (f"  {_since(seen, when)}", "dim"))]
    # What is wrong with its devices stands with them, below.
    failing = probe_troubles(seen.beat, measures.age) if seen.beat is not None else ()
    for words in (*of_machine(node), *failing):
        lines.extend(facts("", f"▲ {clean(words)}", width, role=WARN))
    if node.liveness != READY and node.last_heard is not None:
        heard = f"{measures.age(when.since(node.last_heard))} ago, at {when.clock(node.last_heard)}"
        lines.append(fact("heard", (heard, "down")))
    lines.append(fact("address", clean(node.address or "-")))
    lines.append(fact("agent", clean(node.agent_version or "-"), *_peer(seen)))
    if node.labels:
        words = " ".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
        lines.extend(facts("labels", clean(words), width))
    if node.certificate_ends is not None:
        left = node.certificate_ends - when.now
        words = f"for another {measures.age(left)}" if left > 0 else "it ended"
        lines.append(fact("certificate", (words, "text" if left > 0 else "down")))
    return Section("Node", tuple(lines))


def _since(seen: NodeSeen, when: When) -> str:
    age = when.since(seen.node.since)
    return "" if age is None else f"for {measures.age(age)}"


def _peer(seen: NodeSeen) -> Pieces:
    return said((f"  from {clean(seen.node.peer)}", "dim")) if seen.node.peer else ()


def _machine(seen: NodeSeen, width: int) -> Section:
    host = seen.node.inventory.host
    if host is None:
        return Section("Machine", (PageLine(said(("not reported", "absent"))),))
    cores = f", {host.cpus} CPUs" if host.cpus is not None else ""
    system = " ".join(clean(word) for word in (host.os, host.kernel, host.architecture) if word)
    lines = [
        *facts("cpu", clean(host.cpu_model or "-") + cores, width),
        fact("memory", show_bytes(host.memory_bytes)),
        *facts("system", system or "-", width),
    ]
    if host.nvidia_driver or host.cuda_version:
        words = f"driver {host.nvidia_driver or '-'}, CUDA {host.cuda_version or '-'}"
        lines.append(fact("nvidia", clean(words)))
    if host.mem_bandwidth_gbs is not None:
        core = host.mem_bandwidth_core_gbs
        alone = "" if core is None else f", {measures.number(core, ' GB/s')} of one core"
        whole = measures.number(host.mem_bandwidth_gbs, " GB/s")
        lines.append(fact("bandwidth", f"{whole} of memory{alone}"))
    return Section("Machine", tuple(lines))


def _load(seen: NodeSeen, width: int) -> Section:
    room = min(40, max(10, width - 48))  # the words are whole at 80 cells
    cpu, memory = seen.cpu_share, seen.memory_share
    used, total = seen.memory_used, seen.memory_total
    words = f"{show_bytes(used)} of {show_bytes(total)}" if used is not None else ""
    beat = seen.beat
    load = measures.number(beat.load_average if beat else None, digits=2)
    cpus = f" on {beat.cpus} CPUs" if beat and beat.cpus is not None else ""
    return Section(
        "Load",
        (
            _meter("cpu", cpu, room, measures.spark(seen.cpu, 12), ""),
            _meter("memory", memory, room, measures.spark(seen.memory, 12), words),
            fact("load", (load, "absent" if load == "-" else "text"), (cpus, "dim")),
        ),
    )


def _meter(name: str, share: float | None, room: int, history: Pieces, words: str) -> PageLine:
    """Return a bar, its percentage, the last minutes as a sparkline, and words."""
    meter = measures.gauge(share, measures.percent(share).rjust(4), room)
    return fact(name, *meter, "  ", *history, (f"  {words}" if words else "", "dim"))


def _disks(seen: NodeSeen, width: int) -> list[Section]:
    """Return its own disks, and apart from them what it shares with other machines."""
    beat = seen.beat
    found = (beat.filesystems if beat else None) or seen.node.inventory.filesystems or ()
    sections: list[Section] = []
    for title, shared in (("Disks", False), ("Shared storage", True)):
        lines = tuple(_disk(disk, width) for disk in found if bool(disk.shared) == shared)
        if lines:
            sections.append(Section(title, lines))
    return sections


def _disk(disk: Filesystem, width: int) -> PageLine:
    used = None
    if disk.total_bytes is not None and disk.free_bytes is not None:
        used = disk.total_bytes - disk.free_bytes
    share = measures.share_of(used, disk.total_bytes)
    room = min(40, max(10, width - 52))
    words = f"  {show_bytes(disk.free_bytes)} free of {show_bytes(disk.total_bytes)}"
    kind = f"  {clean(disk.type or '-')}"
    meter = measures.gauge(share, measures.percent(share).rjust(4), room)
    name = fit(said((clean(disk.mount), "dim")), 14)
    return PageLine((*name, Piece("  "), *meter, Piece(words), Piece(kind, "dim")))


def _engines(seen: NodeSeen, width: int) -> Section:
    engines = seen.node.inventory.engines
    if engines is None:
        words = "the node has not looked yet"
        return Section("Engines", (PageLine(said((words, "absent"))),))
    if not engines:
        return Section("Engines", (PageLine(said(("none", "dim"))),))
    lines: list[PageLine] = []
    for engine in engines:
        name = fit(said((clean(engine.engine), "strong")), 12)
        state = fit(engine_state(engine.state).pieces, 14)
        ends = ", ".join(engine.back_ends or ())
        words = "  ".join(clean(word) for word in (engine.version, ends, engine.words) if word)
        lines.append(PageLine((*name, *state, Piece(words or "-", "text"))))
    return Section("Engines", tuple(lines))


def _replicas(seen: NodeSeen, width: int) -> Section:
    lines = tuple(_shard(replica, part, seen, width) for replica, part in seen.shards)
    if not lines:
        return Section("Replicas here", (PageLine(said(("none", "dim"))),))
    return Section("Replicas here", lines)


def _shard(replica: Replica, part: ReplicaShard, seen: NodeSeen, width: int) -> PageLine:
    use = seen.uses.get((replica.id, part.rank))
    compute = part.compute.back_end if part.compute else None
    name = replica.id if part.rank == 0 else f"{replica.id}/{part.rank}"
    pieces = [*fit(said((clean(name), "strong")), min(36, max(20, width // 3))), Piece("  ")]
    pieces += fit(shard_state(part.state).pieces, 12)
    pieces += said((f"on {clean(compute)}" if compute else "on -", "text" if compute else "absent"))
    if part.port is not None:
        pieces += said((f"  port {part.port}", "dim"))
    if use is not None:
        cores = measures.number(use.cpu_cores, digits=1)
        pieces += said((f"  {cores} cores, {show_bytes(use.memory_bytes)}", "dim"))
    words = clean(part.reason) if part.reason else progress_words(part.progress)
    if words and part.state != shard.READY:
        pieces += said("  ", (words, shard_state(part.state).kind))
    return linked(pieces, Place(REPLICA, replica.id))
