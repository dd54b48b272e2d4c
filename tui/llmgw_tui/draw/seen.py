"""What a screen is drawn from: records put together, at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from llmgw.base.units import show_moment
from llmgw.model import shard
from llmgw.model.availability import availability, holders
from llmgw.model.catalog import CatalogEntry
from llmgw.model.condition import with_cards
from llmgw.model.device import MIG, Device, DeviceHealth, DeviceSample
from llmgw.model.events import Event
from llmgw.model.fabric import Port
from llmgw.model.gateway import Route
from llmgw.model.node import READY, Heartbeat, Node, Sample
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.shard import Progress, ShardUse
from llmgw.model.trouble import troubles
from llmgw.model.whereabouts import serves, whereabouts
from llmgw_tui.draw import measures
from llmgw_tui.draw.measures import share_of
from llmgw_tui.draw.states import State, model_state, node_state
from llmgw_tui.draw.text import clean


@dataclass(frozen=True, slots=True)
class When:
    """The moment of drawing and the zone that clock times are told in."""

    now: float
    zone: tzinfo = UTC

    def clock(self, at: float, pattern: str = "%H:%M:%S") -> str:
        """Return a moment as a clock time; `-` when it is none."""
        return show_moment(at, pattern, self.zone)

    def since(self, at: float | None) -> float | None:
        """Return the seconds since a moment; None when it is not known."""
        return None if at is None else max(0.0, self.now - at)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node, its last heartbeat, and the replicas with a shard on it."""

    node: Node
    sample: Sample | None = None
    replicas: tuple[Replica, ...] = ()
    cpu: Sequence[float] = ()
    """Shares 0 to 1 since the console started, oldest first; NaN where none was measured."""
    memory: Sequence[float] = ()
    known_troubled: bool | None = None
    """Whether something is wrong with it, where somebody looked already."""

    @property
    def state(self) -> State:
        """Return the node's state."""
        known = self.known_troubled
        found = is_troubled(self.node, self.sample) if known is None else known
        return node_state(self.node, self.replicas, troubled=found)

    def troubles(self, when: When) -> tuple[str, ...]:
        """Return all that is wrong with it, in the words of `ctl nodes` and `ctl status`."""
        return tuple(map(clean, _troubles(self.node, self.sample, when.now)))

    @property
    def beat(self) -> Heartbeat | None:
        """Return the heartbeat of a node that is heard; an old one says nothing about now."""
        if self.sample is None or self.node.liveness != READY:
            return None
        return self.sample.heartbeat

    @property
    def cpu_share(self) -> float | None:
        """Return how busy the CPU is, 0 to 1."""
        beat = self.beat
        return None if beat is None else share_of(beat.cpu_percent, 100.0)

    @property
    def memory_used(self) -> int | None:
        """Return the bytes of memory in use."""
        beat = self.beat
        if beat is None or beat.memory_bytes is None or beat.memory_available_bytes is None:
            return None
        return beat.memory_bytes - beat.memory_available_bytes

    @property
    def memory_total(self) -> int | None:
        """Return the bytes of memory that the machine has."""
        host = self.node.inventory.host
        beat = self.sample.heartbeat if self.sample else None
        return (beat.memory_bytes if beat else None) or (host.memory_bytes if host else None)

    @property
    def memory_share(self) -> float | None:
        """Return how full the memory is, 0 to 1."""
        return share_of(self.memory_used, self.memory_total)

    @property
    def devices(self) -> tuple[Device, ...] | None:
        """Return what an engine can be given here; None when the node cannot say.

        A card that is cut into instances is given to nobody and left out. One of which nothing is
        carved, or that is broken, stays: its reason is told with it.
        """
        found = self.node.inventory.devices
        if found is None:
            return None
        cards = {device.card_uuid for device in found if device.kind == MIG}
        return tuple(
            device
            for device in found
            if device.kind == MIG or not device.mig_enabled or device.uuid not in cards
        )

    @property
    def hardware(self) -> tuple[Device, ...]:
        """Return its devices in order, cards that are cut into instances among them."""
        return with_cards(self.node.inventory.devices or ())

    @property
    def ports(self) -> tuple[Port, ...]:
        """Return its network ports, with their counters where it is heard."""
        beat = self.beat
        return (beat.ports if beat else None) or self.node.inventory.ports or ()

    @property
    def health(self) -> Mapping[str, DeviceHealth]:
        """Return what its devices say of their wear and faults, by UUID."""
        beat = self.beat
        return {one.uuid: one for one in (beat.health or ())} if beat else {}

    @property
    def readings(self) -> Mapping[str, DeviceSample]:
        """Return the readings of its devices by UUID."""
        beat = self.beat
        return {reading.uuid: reading for reading in (beat.devices or ())} if beat else {}

    @property
    def uses(self) -> Mapping[tuple[str, int], ShardUse]:
        """Return what its shards use, by replica and rank."""
        beat = self.beat
        return {(use.replica, use.rank): use for use in (beat.shards or ())} if beat else {}

    @property
    def shards(self) -> tuple[tuple[Replica, ReplicaShard], ...]:
        """Return the shards on this node with their replicas."""
        return tuple(
            (replica, part)
            for replica in self.replicas
            for part in replica.shards
            if part.node == self.node.id
        )

    @property
    def held(self) -> Mapping[str, str]:
        """Return the devices that live shards hold: UUID to replica."""
        return holders(self.node, self.replicas)

    def availability(self, device: Device) -> str:
        """Return whether a device can be given out, in the words of scrapes and commands."""
        reading = self.readings.get(device.uuid)
        return availability(device, self.node, reading, held=device.uuid in self.held)


@dataclass(frozen=True, slots=True)
class ModelSeen:
    """A catalog entry, the route that the control plane made for it, and its replicas."""

    entry: CatalogEntry
    route: Route | None = None
    replicas: tuple[Replica, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """All nodes by id."""

    @property
    def wanted(self) -> int:
        """Return how many replicas the catalog wants."""
        if self.route is not None:
            return self.route.wanted
        return sum(profile.replicas for profile in self.entry.model.profiles)

    @property
    def ready(self) -> int:
        """Return how many replicas serve."""
        return sum(serves(replica, self.nodes) for replica in self.replicas)

    @property
    def state(self) -> State:
        """Return the model's state."""
        words = [replica.state for replica in self.replicas]
        moving = sum(word in {shard.FETCHING, shard.STARTING} for word in words)
        return model_state(self.wanted, self.ready, moving)

    @property
    def away(self) -> str:
        """Return which of its replicas is out of reach, in words; empty when none is."""
        told = ((one.id, whereabouts(one, self.nodes).words) for one in self.replicas)
        return next((clean(f"{name}: {words}") for name, words in told if words), "")

    @property
    def why(self) -> str:
        """Return why less of it runs than is wanted, in the best words there are."""
        if self.route is not None and self.route.reason:
            return clean(self.route.reason)
        broken = {shard.FAILED, shard.STUCK}
        first = sorted(self.replicas, key=lambda replica: replica.state not in broken)
        told = (replica_words(replica, self.nodes) for replica in first)
        return next((words for words in told if words), "")


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """Everything, for screens that look at all of it."""

    nodes: tuple[NodeSeen, ...] = ()
    models: tuple[ModelSeen, ...] = ()
    replicas: tuple[Replica, ...] = ()
    events: tuple[Event, ...] = ()
    """Oldest first."""

    @property
    def by_id(self) -> Mapping[str, Node]:
        """Return all nodes by id."""
        return {seen.node.id: seen.node for seen in self.nodes}


def is_troubled(node: Node, sample: Sample | None) -> bool:
    """Say whether something is wrong with a node, as of its last heartbeat."""
    return bool(_troubles(node, sample, sample.at if sample else node.last_heard or 0.0))


def _troubles(node: Node, sample: Sample | None, now: float) -> tuple[str, ...]:
    beat = sample.heartbeat if sample is not None else None
    return troubles(node, beat, now=now, ages=measures.age)


def device_name(device: Device) -> str:
    """Return a device's name on its node: `gpu3`, `gpu3/mig1`."""
    return clean(device.uuid)[:12] if device.number is None else device.shown


def device_names(node: Node | None) -> dict[str, str]:
    """Return the names of a node's devices by UUID."""
    devices = node.inventory.devices if node else None
    return {device.uuid: device_name(device) for device in devices or ()}


def progress_words(progress: Progress | None) -> str:
    """Return how far a step is; a percentage only where there is a total."""
    if progress is None:
        return ""
    words = clean(progress.words)
    share = share_of(progress.done_bytes, progress.total_bytes)
    return words if share is None else f"{words} {share * 100:.0f}%"


def replica_words(replica: Replica, nodes: Mapping[str, Node]) -> str:
    """Return why a replica is as it is.

    That its nodes are not heard, else its reason, else what its first unready shard is doing.
    """
    if words := whereabouts(replica, nodes).words:
        return clean(words)
    if replica.reason:
        return clean(replica.reason)
    for part in replica.shards:
        if part.state == shard.READY:
            continue
        words = clean(part.reason) if part.reason else progress_words(part.progress)
        if words:
            return words
    return ""


def back_end(replica: Replica) -> str | None:
    """Return what a replica computes on, as its engines said: `CPU`, `CUDA`, or `CUDA+CPU`."""
    found = dict.fromkeys(
        part.compute.back_end
        for part in replica.shards
        if part.compute is not None and part.compute.back_end
    )
    return clean("+".join(word for word in found if word)) or None
