"""One node as the control plane has seen it, and the record that people are shown of it."""

from dataclasses import dataclass, field

from llmgw.base.units import show_seconds
from llmgw.control.inventory import unhealthy, without_unseen
from llmgw.control.liveness import MISSED, liveness, next_change
from llmgw.model.node import LOST, READY, UNREACHABLE, Inventory, Node, Register, Sample
from llmgw.model.shard import FAILED, STOPPED, ShardStatus
from llmgw.store.interface import StoredNode

ShardKey = tuple[str, int]
"""Replica and rank."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One shard where it is, or where it was sent to."""

    node: str
    status: ShardStatus


@dataclass(frozen=True, slots=True)
class Arrival:
    """A node's stream, as far as the fleet needs to know it."""

    session: int
    peer: str
    interval: float
    """The heartbeat interval that the node is told in its welcome."""
    certificate_ends: float | None = None
    certificate_begins: float | None = None


@dataclass(slots=True)
class SeenNode:
    """All that is known of one node. Times: `heard`, `awaited` monotonic; the others wall-clock.

    Invariant: `shards` changes only by what the node itself reported.
    """

    id: str
    awaited: float
    """Since when this control plane waits to hear of it."""
    interval: float
    """The heartbeat interval that the node was told: its silence is measured by that."""
    heard: float | None = None
    heard_at: float | None = None
    ready_since: float | None = None
    stored: StoredNode | None = None
    connected: bool = False
    session: int | None = None
    reported: bool = False
    """It has registered since this control plane started."""
    listed: bool = False
    """It has said since then what it runs; an old agent can't."""
    address: str | None = None
    peer: str | None = None
    agent_version: str | None = None
    features: tuple[str, ...] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    boot: str | None = None
    machine: str | None = None
    inventory: Inventory = field(default_factory=Inventory)
    wish: str | None = None
    certificate_ends: float | None = None
    certificate_begins: float | None = None
    troubles: dict[str, str] = field(default_factory=dict)
    """What the control plane itself found wrong with it, by kind."""
    fallen: tuple[str, ...] = ()
    """Which of its ports went down, in words."""
    shards: dict[ShardKey, ShardStatus] = field(default_factory=dict)
    foreign: set[ShardKey] = field(default_factory=set)
    """Those of `shards` that run on another node: they hold what they name and are nothing else."""
    ready_shards: dict[ShardKey, float] = field(default_factory=dict)
    """Since when each ready shard is, in monotonic seconds."""
    sample: Sample | None = None
    told_liveness: str | None = None
    """The verdict that people were last told."""
    _shown: tuple[Inventory, tuple[str, ...], Inventory] | None = field(default=None, repr=False)
    """An inventory, what is wrong by it, and what is shown of it: asked for at each pass, and the
    same from one change to the next."""

    def arrived(self, message: Register, arrival: Arrival) -> None:
        """Take what a new stream, and the first message on it, say of the node and its agent."""
        self.connected, self.session = True, arrival.session
        self.peer, self.interval = arrival.peer, arrival.interval
        self.certificate_ends = arrival.certificate_ends
        self.certificate_begins = arrival.certificate_begins
        self.agent_version, self.features = message.agent_version, message.features
        self.boot, self.machine = message.boot, message.machine
        if message.address is not None:
            self.address = message.address
        if message.labels is not None:
            self.labels = dict(message.labels)

    def age(self, now: float) -> float:
        """Return the seconds since anything was heard, or since it is waited for."""
        return now - (self.heard if self.heard is not None else self.awaited)

    def liveness(self, now: float, lost_after: float) -> str | None:
        """Return the verdict; None for a node of the store that may still be on its way."""
        verdict = liveness(self.age(now), self.interval, lost_after)
        if self.heard is not None or verdict == LOST:
            return verdict
        return None

    def lost_for(self, now: float, lost_after: float) -> float | None:
        """Return the seconds since it counts as lost; None when it does not."""
        age = self.age(now) - max(lost_after, MISSED * self.interval)
        return age if age >= 0 else None

    def next_change(self, now: float, lost_after: float) -> float | None:
        """Return in how many seconds of silence its verdict changes; None: it does not."""
        age = self.age(now)
        if self.heard is None:
            left = max(lost_after, MISSED * self.interval) - age
            return left if left > 0 else None
        return next_change(age, self.interval, lost_after)

    def live_shards(self) -> tuple[ShardStatus, ...]:
        """Return the shards that hold something: all but those reported as stopped or failed."""
        return tuple(one for one in self.shards.values() if holds(one))

    def record(self, now: float, lost_after: float) -> Node:
        """Return the node as people are shown it."""
        verdict = self.liveness(now, lost_after)
        wrong, inventory = self._of_inventory()
        return Node(
            id=self.id,
            liveness=verdict,
            wish=self.wish,
            health=(*self.troubles.values(), *self.fallen, *wrong),
            connected=self.connected,
            address=self.address,
            peer=self.peer,
            agent_version=self.agent_version,
            features=self.features,
            labels=dict(self.labels),
            since=self._since(verdict, lost_after),
            last_heard=None if verdict == READY else self.last_heard(),
            inventory=inventory,
            certificate_ends=self.certificate_ends,
            certificate_begins=self.certificate_begins,
        )

    def _of_inventory(self) -> tuple[tuple[str, ...], Inventory]:
        """Return what is wrong with what it has, and what is shown of that."""
        now = self.inventory
        if self._shown is None or self._shown[0] is not now:
            self._shown = (now, unhealthy(now), without_unseen(now))
        return self._shown[1:]

    def last_heard(self) -> float | None:
        """Return when it was last heard, by an earlier control plane if not by this one."""
        if self.heard_at is not None:
            return self.heard_at
        return self.stored.last_seen if self.stored is not None else None

    def silence(self, now: float) -> str:
        """Return how long it has been silent, for a sentence."""
        if self.heard is None:
            return "not heard since this control plane started"
        return f"last heard {show_seconds(self.age(now))} ago"

    def _since(self, verdict: str | None, lost_after: float) -> float | None:
        if verdict == READY:
            return self.ready_since
        heard = self.last_heard()
        if heard is None or verdict is None:
            return heard
        silent = MISSED * self.interval
        return heard + (silent if verdict == UNREACHABLE else max(lost_after, silent))


def holds(status: ShardStatus) -> bool:
    """Say whether a shard holds its devices and memory.

    A state that this version does not know, or none at all, counts as holding: only a process that
    is known to be gone holds nothing.
    """
    return status.state not in {STOPPED, FAILED}
