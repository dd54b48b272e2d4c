"""The fleet as this console knows it. Plain dictionaries; what changed is collected in sets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from llmgw.client.interface import Change, Connection, WatchBatch
from llmgw.model.catalog import CatalogEntry
from llmgw.model.events import Event
from llmgw.model.feed import EVENTS, MODELS, NODES, REPLICAS, ROUTES, SAMPLES, SETTINGS
from llmgw.model.gateway import Route
from llmgw.model.node import Node, Sample
from llmgw.model.replica import Replica
from llmgw.model.shard import ShardUse
from llmgw_tui.draw.measures import share_of
from llmgw_tui.draw.seen import FleetSeen, ModelSeen, NodeSeen, is_troubled
from llmgw_tui.store.series import Ring

TOPICS = (NODES, SAMPLES, REPLICAS, MODELS, ROUTES, EVENTS, SETTINGS)
"""What the one watch follows."""
MOST_EVENTS = 500
_CLUSTER = "cluster"

T = TypeVar("T")


@dataclass(slots=True)
class Changes:
    """What changed since it was last asked. Ids of nodes include those whose replicas changed."""

    nodes: set[str] = field(default_factory=set)
    replicas: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    events: bool = False
    connection: bool = False
    everything: bool = False
    """A listing came: nothing of what was drawn may be kept."""
    minute: bool = False
    """Ages are told in minutes, and another one has passed."""

    def __bool__(self) -> bool:
        flags = self.events or self.connection or self.everything or self.minute
        return bool(flags or self.nodes or self.replicas or self.models)


class Fleet:
    """Records by topic and id, who belongs to whom, and what changed.

    Invariant: after each `take` of a batch the indexes (replicas of a node, of a model) fit the
    records.
    """

    def __init__(self) -> None:
        self.connection = Connection(state="connecting", since=0.0, heard=None)
        self.listed = False
        """Something was ever heard of the fleet."""
        self.cluster: str | None = None
        self.nodes: dict[str, Node] = {}
        self.samples: dict[str, Sample] = {}
        self.replicas: dict[str, Replica] = {}
        self.models: dict[str, CatalogEntry] = {}
        self.routes: dict[str, Route] = {}
        self.events: dict[str, Event] = {}
        self.unreadable = 0
        """Records that this version could not read."""
        self._troubled: dict[str, tuple[Node, Sample | None, bool]] = {}
        """Whether something is wrong with a node, by the records that say so."""
        self._cpu: dict[str, Ring] = {}
        self._memory: dict[str, Ring] = {}
        self._on_node: dict[str, set[str]] = {}
        self._of_model: dict[str, set[str]] = {}
        self._changes = Changes()

    def take(self, batch: WatchBatch) -> None:
        """Take in what the watch said."""
        if batch.connection != self.connection:
            self._changes.connection |= batch.connection.state != self.connection.state
            self._changes.connection |= batch.connection.words != self.connection.words
            self.connection = batch.connection
        if batch.listing:
            self._forget()
        for change in batch.changes:
            self._apply(change)

    def changes(self) -> Changes:
        """Return what changed since the last call."""
        changes, self._changes = self._changes, Changes()
        return changes

    def node(self, node_id: str) -> NodeSeen | None:
        """Return a node with all that belongs to it."""
        node = self.nodes.get(node_id)
        if node is None:
            return None
        cpu, memory = self._cpu.get(node_id), self._memory.get(node_id)
        sample = self.samples.get(node_id)
        return NodeSeen(
            node=node,
            sample=sample,
            replicas=self._named(self._on_node.get(node_id, ())),
            cpu=cpu.values() if cpu else (),
            memory=memory.values() if memory else (),
            known_troubled=self._looked_at(node_id, node, sample),
        )

    def state_of(self, node_id: str) -> str:
        """Return a node's state in a word; empty when there is no such node."""
        seen = self.node(node_id)
        return "" if seen is None else seen.state.word

    def model(self, name: str) -> ModelSeen | None:
        """Return a model with its route and replicas."""
        entry = self.models.get(name)
        if entry is None:
            return None
        replicas = self._named(self._of_model.get(name, ()))
        return ModelSeen(entry, self.routes.get(name), replicas, self.nodes)

    def seen(self) -> FleetSeen:
        """Return everything."""
        nodes = (self.node(node_id) for node_id in sorted(self.nodes))
        models = (self.model(name) for name in sorted(self.models))
        return FleetSeen(
            nodes=tuple(node for node in nodes if node is not None),
            models=tuple(model for model in models if model is not None),
            replicas=self._named(self.replicas),
            events=tuple(self.events[event_id] for event_id in sorted(self.events)),
        )

    def uses(self, replicas: Iterable[Replica]) -> Mapping[tuple[str, str, int], ShardUse]:
        """Return what the shards of some replicas use, by node, replica and rank."""
        found: dict[tuple[str, str, int], ShardUse] = {}
        for node_id in {part.node for replica in replicas for part in replica.shards}:
            seen = self.node(node_id)
            if seen is not None:
                found |= {(node_id, *key): use for key, use in seen.uses.items()}
        return found

    def _looked_at(self, node_id: str, node: Node, sample: Sample | None) -> bool:
        """Say whether something is wrong with a node; the same records are looked at once."""
        known = self._troubled.get(node_id)
        if known is None or known[0] is not node or known[1] is not sample:
            known = (node, sample, is_troubled(node, sample))
            self._troubled[node_id] = known
        return known[2]

    def _named(self, ids: Iterable[str]) -> tuple[Replica, ...]:
        return tuple(self.replicas[one] for one in sorted(ids) if one in self.replicas)

    def _forget(self) -> None:
        for known in (self.nodes, self.samples, self.replicas, self.models, self.routes):
            known.clear()
        self.events.clear()
        self._on_node.clear()
        self._of_model.clear()
        self._troubled.clear()
        self._changes.everything = True
        self.listed = True

    def _apply(self, change: Change) -> None:
        match change.topic:
            case "nodes":
                self._node(change)
            case "samples":
                self._sample(change)
            case "replicas":
                self._replica(change)
            case "models":
                self._put(self.models, change, CatalogEntry)
                self._changes.models.add(change.id)
            case "routes":
                self._put(self.routes, change, Route)
                self._changes.models.add(change.id)
            case "events":
                self._event(change)
            case "settings":
                self._settings(change)
            case _:
                pass

    def _put(self, known: dict[str, T], change: Change, kind: type[T]) -> T | None:
        """Keep, replace or drop one record; one that can't be read is counted and dropped."""
        record: T | None = None
        if change.record is not None:
            try:
                record = msgspec.convert(change.record, kind)
            except msgspec.ValidationError:
                self.unreadable += 1
        if record is None:
            known.pop(change.id, None)
        else:
            known[change.id] = record
        return record

    def _sample(self, change: Change) -> None:
        sample = self._put(self.samples, change, Sample)
        self._changes.nodes.add(change.id)
        for replica_id in self._on_node.get(change.id, ()):
            self._changes.replicas.add(replica_id)
        if sample is None:
            self._cpu.pop(change.id, None)
            self._memory.pop(change.id, None)
            return
        beat = sample.heartbeat
        used = None
        if beat.memory_bytes is not None and beat.memory_available_bytes is not None:
            used = beat.memory_bytes - beat.memory_available_bytes
        self._cpu.setdefault(change.id, Ring()).add(share_of(beat.cpu_percent, 100.0))
        self._memory.setdefault(change.id, Ring()).add(share_of(used, beat.memory_bytes))

    def _node(self, change: Change) -> None:
        before = self.nodes.get(change.id)
        after = self._put(self.nodes, change, Node)
        self._changes.nodes.add(change.id)
        if before is not None and after is not None and before.liveness == after.liveness:
            return
        for replica in self._named(self._on_node.get(change.id, ())):
            self._changes.replicas.add(replica.id)
            self._changes.models.add(replica.model or "")

    def _replica(self, change: Change) -> None:
        before = self.replicas.get(change.id)
        after = self._put(self.replicas, change, Replica)
        self._changes.replicas.add(change.id)
        for replica in (before, after):
            if replica is None:
                continue
            nodes = {part.node for part in replica.shards}
            self._changes.nodes |= nodes
            if replica.model is not None:
                self._changes.models.add(replica.model)
            for index, names in ((self._on_node, nodes), (self._of_model, {replica.model or ""})):
                for name in names:
                    known = index.setdefault(name, set())
                    (known.add if replica is after else known.discard)(change.id)

    def _event(self, change: Change) -> None:
        self._put(self.events, change, Event)
        self._changes.events = True
        while len(self.events) > MOST_EVENTS:
            self.events.pop(min(self.events))

    def _settings(self, change: Change) -> None:
        """Read the cluster's name; the rest of the settings is no business of a screen yet."""
        if change.id != _CLUSTER or not isinstance(change.record, dict):
            return
        found: Any = change.record.get("settings")
        cluster = found.get("cluster") if isinstance(found, dict) else None
        name = cluster.get("name") if isinstance(cluster, dict) else None
        if isinstance(name, str) and name != self.cluster:
            self.cluster = name
            self._changes.connection = True
