"""The pages of one replica and of one model."""

from collections.abc import Mapping

from llmgw.base.units import show_bytes
from llmgw.model import shard
from llmgw.model.catalog import Profile
from llmgw.model.node import Node
from llmgw.model.replica import Replica, ReplicaShard
from llmgw_tui.draw import measures
from llmgw_tui.draw.models import needs, source
from llmgw_tui.draw.page import PageLine, Section, fact, facts, gap_for, linked, stack
from llmgw_tui.draw.places import MODEL, NODE, REPLICA, Place
from llmgw_tui.draw.replicas import Uses, where
from llmgw_tui.draw.seen import (
    ModelSeen,
    When,
    back_end,
    device_names,
    progress_words,
    replica_words,
)
from llmgw_tui.draw.states import DOWN, MOVING, WARN, replica_state, shard_state
from llmgw_tui.draw.text import Piece, clean, fit, said

_ROLES = {DOWN: "down", WARN: "warn", MOVING: "moving"}


def replica_page(
    replica: Replica,
    nodes: Mapping[str, Node],
    uses: Uses,
    when: When,
    *,
    width: int,
    height: int,
) -> list[PageLine]:
    """Return the page of a replica: why it is as it is, and each of its shards."""
    state = replica_state(replica, nodes)
    age = measures.age(when.since(replica.since))
    lines = [fact("state", *state.pieces, (f"  for {age}", "dim"))]
    if words := replica_words(replica, nodes):
        lines.extend(facts("why", words, width, role=_ROLES.get(state.kind, "text")))
    model = replica.model
    shown = fact("model", clean(model or "-"))
    lines.append(linked(shown.pieces, Place(MODEL, model)) if model else shown)
    lines.append(fact("profile", clean(replica.profile or "-")))
    lines.append(fact("engine", clean(replica.engine or "-")))
    if replica.stale:
        lines.append(fact("stale", ("runs an older profile than the catalog has", WARN)))
    sections = [Section("Replica", tuple(lines))]
    sections += [_shard(replica, part, nodes, uses, width) for part in replica.shards]
    return stack(sections, width, gap_for(height))


def _shard(
    replica: Replica, part: ReplicaShard, nodes: Mapping[str, Node], uses: Uses, width: int
) -> Section:
    names = device_names(nodes.get(part.node))
    devices = ", ".join(names.get(uuid, clean(uuid)[:12]) for uuid in part.devices)
    lines = [
        fact("state", *shard_state(part.state).pieces),
        linked(fact("node", clean(part.node)).pieces, Place(NODE, part.node)),
        fact("devices", devices or "cpu"),
        *_compute(part, width),
    ]
    if part.port is not None:
        keyed = "" if part.keyed is None else ", with a key" if part.keyed else ", without a key"
        lines.append(fact("port", str(part.port), (keyed, "dim")))
    if part.pid is not None:
        adopted = ", adopted by a restarted agent" if part.adopted else ""
        lines.append(fact("pid", str(part.pid), (adopted, "dim")))
    use = uses.get((part.node, replica.id, part.rank))
    if use is not None:
        lines.append(fact("uses", _use_words(use.cpu_cores, use.memory_bytes)))
        running = measures.number(use.requests_running)
        waiting = measures.number(use.requests_waiting)
        lines.append(fact("requests", f"{running} running, {waiting} waiting"))
    if part.progress is not None and part.state != shard.READY:
        lines.extend(facts("progress", _progress(part), width, role=MOVING))
    if part.reason:
        lines.extend(facts("reason", clean(part.reason), width, role="down"))
    return Section(f"Shard {part.rank}", tuple(lines))


def _use_words(cores: float | None, memory: int | None) -> str:
    return f"{measures.number(cores, ' cores', 1)}, {show_bytes(memory)} of memory"


def _progress(part: ReplicaShard) -> str:
    progress = part.progress
    if progress is None or progress.total_bytes is None:
        return progress_words(progress)
    done, total = show_bytes(progress.done_bytes), show_bytes(progress.total_bytes)
    return f"{progress_words(progress)} ({done} of {total})"


def _compute(part: ReplicaShard, width: int) -> list[PageLine]:
    """Return what the engine said that it computes on."""
    report = part.compute
    if report is None:
        return [fact("on", ("- not reported yet", "absent"))]
    wrong = bool(part.devices) and report.back_end == "CPU"
    layers = ""
    if report.layers_offloaded is not None and report.layers is not None:
        layers = f", {report.layers_offloaded} of {report.layers} layers offloaded"
    words = clean(report.back_end or "-") + layers
    lines = facts("on", words, width, role="warn" if wrong else "strong")
    for device in report.devices:
        if device.model_bytes is None and not device.description:
            continue
        text = f"{clean(device.name)}: {show_bytes(device.model_bytes)} of weights"
        if device.description:
            text += f", {clean(device.description)}"
        lines.extend(facts("", text, width, role="dim"))
    return lines


def model_page(seen: ModelSeen, when: When, width: int, height: int) -> list[PageLine]:
    """Return the page of a model: how it stands, its profiles, its replicas."""
    entry, state = seen.entry, seen.state
    counts = f"  {seen.ready} of {seen.wanted} ready"
    lines = [fact("state", *state.pieces, (counts, "text"))]
    if seen.why and state.kind in _ROLES:
        lines.extend(facts("why", seen.why, width, role=_ROLES[state.kind]))
    lines.extend(facts("source", source(entry.model), width))
    changed = f"{measures.age(when.since(entry.changed))} ago by {clean(entry.changed_by)}"
    lines.append(fact("version", f"{entry.version}", (f"  {changed}", "dim")))
    sections = [Section("Model", tuple(lines))]
    sections += [_profile(profile, width) for profile in entry.model.profiles]
    sections.append(_replicas(seen, when, width))
    return stack(sections, width, gap_for(height))


def _profile(profile: Profile, width: int) -> Section:
    version = f" {clean(profile.engine_version)}" if profile.engine_version else ""
    most = "" if profile.max_replicas is None else f", at most {profile.max_replicas}"
    lines = [
        fact("engine", clean(profile.engine) + version),
        fact("needs", needs(profile)),
        fact("replicas", f"{profile.replicas}{most}"),
    ]
    if profile.context is not None:
        lines.append(fact("context", f"{profile.context} tokens"))
    if profile.node_selector:
        words = " ".join(f"{name}={value}" for name, value in profile.node_selector.items())
        lines.extend(facts("nodes with", clean(words), width))
    if profile.arguments:
        lines.extend(facts("arguments", clean(" ".join(profile.arguments)), width))
    return Section(f"Profile {clean(profile.name)}", tuple(lines))


def _replicas(seen: ModelSeen, when: When, width: int) -> Section:
    lines: list[PageLine] = []
    for replica in seen.replicas:
        state = replica_state(replica, seen.nodes)
        pieces = [*fit(said((clean(replica.id), "strong")), min(36, max(20, width // 3)))]
        pieces += [Piece("  "), *fit(state.pieces, 14), *fit(said(where(replica)), 20)]
        pieces += said(f"on {back_end(replica) or '-'}")
        if state.kind in _ROLES:
            pieces += said("  ", (replica_words(replica, seen.nodes), _ROLES[state.kind]))
        lines.append(linked(pieces, Place(REPLICA, replica.id)))
    return Section("Replicas", tuple(lines) or (PageLine(said(("none", "dim"))),))
