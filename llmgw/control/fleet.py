"""The only truth about what runs: facts come in, each change is marked in the feed exactly once.

Nodes are known from the store and from what they say; replicas are known from reports alone
(invariant 2), plus the starts that were sent and are not reported yet. Every method is synchronous:
between two of them the fleet is whole. Readings (`samples`) are kept apart from nodes, so that a
heartbeat changes no node's record.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from llmgw.base.clock import Clock
from llmgw.control.events import Events
from llmgw.control.feed import Feed
from llmgw.control.hardware import Hardware
from llmgw.control.inventory import device_named, merged, with_heartbeat, worse
from llmgw.control.news import differences, recovered, registered
from llmgw.control.nodes import SeenNode
from llmgw.control.probing import news
from llmgw.control.replicas import bookings
from llmgw.control.routing import Routing
from llmgw.control.shards import Shards
from llmgw.control.wear import damage
from llmgw.model.events import INFO, PROBLEM, WARNING
from llmgw.model.feed import NODES, ROUTES, SAMPLES
from llmgw.model.gateway import Route
from llmgw.model.node import LOST, READY, Heartbeat, Inventory, Node, Register, Sample
from llmgw.model.replica import Replica
from llmgw.model.settings import LinkSettings
from llmgw.model.shard import ShardStatus
from llmgw.plan.records import NodeRoom, Observed
from llmgw.store.interface import StoredNode


@dataclass(frozen=True, slots=True)
class Arrival:
    """A node's stream, as far as the fleet needs to know it."""

    session: int
    peer: str
    interval: float
    """The heartbeat interval that the node is told in its welcome."""
    certificate_ends: float | None = None


class Fleet:
    """Every node, what was last said by it, and what it runs.

    Args:
        clock: silence is measured by it.
        feed: marked at each change of a node, sample or replica; routes are touched.
        events: what people should know of is told there.
        link: the link's settings in force.
        fingerprint: what the catalog would start for (model, profile) now.
        settled: says, for the nodes that are still waited for, whether to decide without them.
        routing: the routes made of this fleet.
        hardware: hears every heartbeat.
    """

    def __init__(
        self,
        clock: Clock,
        feed: Feed,
        events: Events,
        *,
        link: Callable[[], LinkSettings],
        fingerprint: Callable[[str, str], str | None],
        settled: Callable[[tuple[str, ...]], bool],
        routing: Routing,
        hardware: Hardware,
    ) -> None:
        self._clock = clock
        self._feed = feed
        self._events = events
        self._link = link
        self._settled = settled
        self._routing = routing
        self._hardware = hardware
        self._nodes: dict[str, SeenNode] = {}
        self.shards = Shards(self._nodes, clock, feed, events, fingerprint)
        feed.serve(NODES, lambda: tuple(self._nodes), self.node)
        feed.serve(SAMPLES, self._sampled, self.sample)

    # Reads.

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes, by id."""
        return tuple(self._record(seen) for _, seen in sorted(self._nodes.items()))

    def node(self, node: str) -> Node | None:
        """Return a node; None when there is none of that id."""
        seen = self._nodes.get(node)
        return self._record(seen) if seen is not None else None

    def sample(self, node: str) -> Sample | None:
        """Return a node's last heartbeat; None when there was none since this start."""
        seen = self._nodes.get(node)
        return seen.sample if seen is not None else None

    def replicas(self) -> tuple[Replica, ...]:
        """Return all replicas, by id."""
        return self.shards.all()

    def replica(self, replica: str) -> Replica | None:
        """Return a replica; None when nothing is known of it."""
        return self.shards.replica(replica)

    def last_heard(self, node: str) -> float | None:
        """Return when a node was last heard, in seconds since the epoch, be it by an earlier start.

        The node's record does not say it of a ready node: it would change with each heartbeat.
        """
        seen = self._nodes.get(node)
        return seen.last_heard() if seen is not None else None

    def routes(self) -> tuple[Route, ...]:
        """Return where requests go, by model."""
        return self._routing.all()

    def waiting_for(self) -> tuple[str, ...]:
        """Return the known nodes that have not said yet what they run and are not lost."""
        now, lost_after = self._clock.monotonic(), self._link().lost_after
        return tuple(
            seen.id
            for _, seen in sorted(self._nodes.items())
            if not seen.reported and seen.liveness(now, lost_after) != LOST
        )

    def observed(self) -> Observed:
        """Return the fleet at this moment, as decisions are made from it."""
        waiting_for = self.waiting_for()
        return Observed(
            nodes=tuple(self._room(seen) for _, seen in sorted(self._nodes.items())),
            replicas=self.replicas(),
            failures=self.shards.failures.all(),
            settled=self._settled(waiting_for),
            waiting_for=waiting_for,
        )

    # What nodes say.

    def load(self, nodes: tuple[StoredNode, ...]) -> None:
        """Know the nodes of the store, of which nothing was heard yet."""
        for stored in nodes:
            seen = self._nodes.setdefault(stored.id, self._new(stored.id))
            seen.stored, seen.wish = stored, stored.wish
            self._mark(seen)

    def register(self, message: Register, arrival: Arrival) -> None:
        """Apply an agent's first message on a new stream."""
        seen = self._nodes.get(message.node)
        news = seen is None or seen.heard is None
        if seen is None:
            seen = self._nodes.setdefault(message.node, self._new(message.node))
        before = self._verdict(seen)
        silence = seen.silence(self._clock.monotonic())
        self._hear(seen)
        seen.connected, seen.session = True, arrival.session
        seen.peer, seen.interval = arrival.peer, arrival.interval
        seen.certificate_ends = arrival.certificate_ends
        known = self._record(seen)
        _take_register(seen, message)
        if not news and before != READY:
            self._tell(INFO, seen, f"is back ({before}, {silence})")
        elif news:
            self._tell(INFO, seen, f"registered from {arrival.peer}")
        if not news:
            self._tell_changes(seen, registered(known, self._record(seen)))
        self._take_inventory(seen, message.inventory)
        if message.shards is not None:
            self.shards.replace(seen, message.shards)
        seen.reported = True
        self._mark(seen)
        self._feed.touch(ROUTES)

    def heartbeat(self, node: str, session: int, message: Heartbeat) -> None:
        """Apply a heartbeat; the node's record changes only when the machine did."""
        seen = self._of_session(node, session)
        if seen is None:
            return
        back = self._hear(seen)
        inventory = with_heartbeat(seen.inventory, message)
        changed = inventory != seen.inventory
        if changed:
            self._replace_inventory(seen, inventory)
        self._take_readings(seen, message)
        fallen = self._hardware.fallen(node)
        if fallen != seen.fallen:
            seen.fallen, changed = fallen, True
        seen.sample = Sample(id=node, at=self._clock.now(), heartbeat=message)
        self._feed.mark(SAMPLES, node)
        if changed or back:
            self._mark(seen)

    def shard(self, node: str, session: int, status: ShardStatus) -> None:
        """Apply one shard's status."""
        seen = self._of_session(node, session)
        if seen is not None:
            self.heard(node, session)
            self.shards.report(seen, status)

    def inventory(self, node: str, session: int, message: Inventory) -> None:
        """Apply what changed of what a node has."""
        seen = self._of_session(node, session)
        if seen is not None and (self._take_inventory(seen, message) | self._hear(seen)):
            self._mark(seen)

    def heard(self, node: str, session: int) -> None:
        """Note that a node said anything at all."""
        seen = self._of_session(node, session)
        if seen is not None and self._hear(seen):
            self._mark(seen)

    def disconnected(self, node: str, session: int) -> None:
        """Note that a stream ended; nothing happens when a newer one took its place.

        What the node runs stays as it was said: the agent is not the engine.
        """
        seen = self._of_session(node, session)
        if seen is not None:
            seen.connected, seen.session = False, None
            self._mark(seen)

    # What the control plane knows of nodes by itself.

    def told(self, node: str, interval: float) -> None:
        """Note the heartbeat interval that a node has taken."""
        seen = self._nodes.get(node)
        if seen is not None:
            seen.interval = interval

    def certificate(self, node: str, ends: float) -> None:
        """Note when a node's newest certificate ends."""
        seen = self._nodes.get(node)
        if seen is not None:
            seen.certificate_ends = ends
            self._mark(seen)

    def trouble(self, node: str, kind: str, words: str | None) -> None:
        """Note what is wrong with a node, or (None) that it no longer is.

        A trouble is told once; the node's health names it until it is over.
        """
        seen = self._nodes.get(node)
        if seen is None or seen.troubles.get(kind) == words:
            return
        if words is None:
            del seen.troubles[kind]
        else:
            seen.troubles[kind] = words
            self._tell(PROBLEM, seen, words)
        self._mark(seen)

    def wish(self, node: str, wish: str | None) -> None:
        """Cordon, drain or release a node."""
        seen = self._nodes.get(node)
        if seen is not None and seen.wish != wish:
            seen.wish = wish
            self._tell(INFO, seen, f"is {wish}" if wish else "is released")
            self._mark(seen)
            self._feed.touch(ROUTES)

    def remove(self, node: str) -> None:
        """Forget a node and what it ran."""
        seen = self._nodes.get(node)
        if seen is None:
            return
        self.shards.forget(seen)
        self._hardware.forget(node)
        del self._nodes[node]
        self._events.add("node", node, f"{node} is removed")
        self._feed.mark(NODES, node)
        self._feed.mark(SAMPLES, node)
        self._feed.touch(ROUTES)

    # Time.

    def age(self) -> tuple[Node, ...]:
        """Mark the nodes whose liveness changed since it was last told; return them."""
        changed: list[Node] = []
        for _, seen in sorted(self._nodes.items()):
            verdict = self._verdict(seen)
            if verdict != seen.told_liveness:
                if verdict != READY:
                    silence = seen.silence(self._clock.monotonic())
                    severity = PROBLEM if verdict == LOST else WARNING
                    self._tell(severity, seen, f"is {verdict}: {silence}")
                self._mark(seen)
                changed.append(self._record(seen))
        if changed:
            self._feed.touch(ROUTES)
        return tuple(changed)

    def next_change(self) -> float | None:
        """Return in how many seconds of silence some node's liveness changes; None: never."""
        now, lost_after = self._clock.monotonic(), self._link().lost_after
        due = [seen.next_change(now, lost_after) for seen in self._nodes.values()]
        return min((left for left in due if left is not None), default=None)

    # Inside.

    def _take_readings(self, seen: SeenNode, message: Heartbeat) -> None:
        """Tell what a heartbeat says that the last one did not."""
        last = seen.sample.heartbeat if seen.sample is not None else None
        for severity, words in news(None if last is None else last.probes, message.probes):
            self._tell(severity, seen, words)

        def name_of(uuid: str) -> str:
            return device_named(seen.inventory, uuid)

        self._hardware.heard(seen.id, message, name_of)
        for uuid, words in damage(last, message):
            told = f"{seen.id} {name_of(uuid)}: {words}"
            # An earlier control plane may have told it.
            if last is not None or not self._events.told(seen.id, told):
                self._events.add("node", seen.id, told, severity=WARNING)

    def _new(self, node: str) -> SeenNode:
        return SeenNode(
            id=node,
            awaited=self._clock.monotonic(),
            interval=self._link().heartbeat_interval,
        )

    def _of_session(self, node: str, session: int) -> SeenNode | None:
        seen = self._nodes.get(node)
        return seen if seen is not None and seen.session == session else None

    def _verdict(self, seen: SeenNode) -> str | None:
        return seen.liveness(self._clock.monotonic(), self._link().lost_after)

    def _hear(self, seen: SeenNode) -> bool:
        """Note the moment; return whether the node became ready by it."""
        back = self._verdict(seen) != READY or seen.heard is None
        seen.heard, seen.heard_at = self._clock.monotonic(), self._clock.now()
        if back:
            seen.ready_since = self._clock.now()
            self._feed.touch(ROUTES)
        return back

    def _take_inventory(self, seen: SeenNode, message: Inventory | None) -> bool:
        if message is None:
            return False
        inventory = merged(seen.inventory, message)
        if inventory == seen.inventory:
            return False
        self._replace_inventory(seen, inventory)
        return True

    def _replace_inventory(self, seen: SeenNode, inventory: Inventory) -> None:
        known = seen.inventory != Inventory()
        words = differences(seen.inventory, inventory) if known else ()
        severity = WARNING if words and worse(seen.inventory, inventory) else INFO
        well = recovered(seen.inventory, inventory) if known else ()
        seen.inventory = inventory
        self._tell_changes(seen, words, severity)
        self._tell_changes(seen, well)

    def _tell_changes(self, seen: SeenNode, words: Sequence[str], severity: str = INFO) -> None:
        if words:
            self._tell(severity, seen, "; ".join(words))

    def _record(self, seen: SeenNode) -> Node:
        return seen.record(self._clock.monotonic(), self._link().lost_after)

    def _sampled(self) -> tuple[str, ...]:
        return tuple(name for name, seen in self._nodes.items() if seen.sample is not None)

    def _room(self, seen: SeenNode) -> NodeRoom:
        node = self._record(seen)
        heartbeat = seen.sample.heartbeat if seen.sample is not None else None
        if heartbeat is not None and heartbeat.filesystems is not None:
            inventory = msgspec.structs.replace(node.inventory, filesystems=heartbeat.filesystems)
            node = msgspec.structs.replace(node, inventory=inventory)
        devices = tuple(device.uuid for device in seen.inventory.devices or ())
        return NodeRoom(
            node=node,
            bookings=bookings(self.shards.held_on(seen), devices),
            memory_available_bytes=heartbeat.memory_available_bytes if heartbeat else None,
            readings=heartbeat.devices if heartbeat else None,
        )

    def _mark(self, seen: SeenNode) -> None:
        seen.told_liveness = self._verdict(seen)
        self._feed.mark(NODES, seen.id)

    def _tell(self, severity: str, seen: SeenNode, words: str) -> None:
        self._events.add("node", seen.id, f"{seen.id} {words}", severity=severity)


def _take_register(seen: SeenNode, message: Register) -> None:
    seen.agent_version = message.agent_version
    seen.features = message.features
    seen.boot, seen.machine = message.boot, message.machine
    if message.address is not None:
        seen.address = message.address
    if message.labels is not None:
        seen.labels = dict(message.labels)
