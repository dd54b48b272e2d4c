"""Texts for values in tables: `-` for what is not known, never 0."""

from llmgw.base.units import show_bytes, show_number, show_seconds
from llmgw.cli.output import ABSENT
from llmgw.model.device import Device
from llmgw.model.node import INSTALLED, InstalledEngine, Node, Sample
from llmgw.model.replica import Replica


def text(value: object | None) -> str:
    """Return a value's text; `-` when it is None or empty."""
    return ABSENT if value is None or value == "" else str(value)


def count(number: int, noun: str) -> str:
    """Return `1 replica`, `2 replicas`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(value: float | None) -> str:
    """Return `42%`."""
    return number(value, "%")


def number(value: float | None, unit: str = "", digits: int = 0) -> str:
    """Return a number with its unit; `-` alone when it is not known."""
    told = show_number(value, digits)
    return told if told == ABSENT else f"{told}{unit}"


def age(at: float | None, now: float) -> str:
    """Return how long ago a moment was."""
    return ABSENT if at is None else show_seconds(max(0.0, now - at))


def node_state(node: Node) -> str:
    """Return liveness and wish in one cell: `ready`, `ready draining`, `- ` not heard of yet."""
    state = node.liveness or "not heard"
    return f"{state} {node.wish}" if node.wish else state


def memory(node: Node, sample: Sample | None) -> str:
    """Return `9.1 / 24 GB`; the total alone when use is not known, `-` when neither is."""
    beat = sample.heartbeat if sample else None
    host = node.inventory.host
    total = (beat.memory_bytes if beat else None) or (host.memory_bytes if host else None)
    if total is None:
        return ABSENT
    if beat is None or beat.memory_available_bytes is None:
        return show_bytes(total)
    return f"{show_bytes(total - beat.memory_available_bytes)} / {show_bytes(total)}"


def device_counts(devices: tuple[Device, ...] | None) -> str:
    """Return `8 h100-80g`, class by class; `-` when not known, `none` for no devices."""
    if devices is None:
        return ABSENT
    counts: dict[str, int] = {}
    carved = {device.card_uuid for device in devices}
    for device in devices:
        if device.uuid in carved:
            continue  # its instances are what can be given out
        kind = device.device_class or device.name or "unknown"
        if device.mig_enabled:
            kind = f"{kind} in MIG mode, nothing carved"
        counts[kind] = counts.get(kind, 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"


def engine(seen: InstalledEngine) -> str:
    """Return `llamacpp 0.1`, or the node's words while it is not installed."""
    if seen.state == INSTALLED or seen.state is None:
        return f"{seen.engine} {seen.version}" if seen.version else seen.engine
    return f"{seen.engine}: {seen.words or seen.state}"


def engines(node: Node) -> str:
    """Return all engines of a node; `-` when it has not looked yet."""
    seen = node.inventory.engines
    if seen is None or node.inventory.engines_probed is False:
        return ABSENT
    return ", ".join(engine(one) for one in seen) or "none"


def replica_nodes(replica: Replica) -> str:
    """Return the nodes of a replica's shards."""
    return ", ".join(dict.fromkeys(shard.node for shard in replica.shards)) or ABSENT


def back_end(replica: Replica) -> str:
    """Return what it computes on in the engine's own words, or `-` before it is known."""
    reports = [shard.compute for shard in replica.shards if shard.compute is not None]
    if not reports or reports[0].back_end is None:
        return ABSENT
    first = reports[0]
    if first.layers is None or first.layers_offloaded is None or first.back_end == "CPU":
        return str(first.back_end)
    return f"{first.back_end} {first.layers_offloaded}/{first.layers}"


def replica_words(replica: Replica) -> str:
    """Return why it is as it is: its reason, else the progress of its slowest shard."""
    if replica.reason:
        return replica.reason
    for shard in replica.shards:
        if shard.progress is not None:
            return progress(
                shard.progress.words, shard.progress.done_bytes, shard.progress.total_bytes
            )
    return ""


def progress(words: str, done: int | None, total: int | None) -> str:
    """Return `fetching (16 MB of 253 MB)`; without a total `16 MB so far`, and no percentage."""
    if done is None:
        return words
    if total is None:
        return f"{words} ({show_bytes(done)} so far)"
    return f"{words} ({show_bytes(done)} of {show_bytes(total)})"
