"""The only truth about what runs: facts come in, each change is marked in the feed exactly once.

Nodes are known from the store and from what they say; replicas are known from reports alone
(invariant 2), plus the starts that were sent and are not reported yet. Every method is synchronous:
between two of them the fleet is whole. Readings (`samples`) are kept apart from nodes, so that a
heartbeat changes no node's record.
"""

from collections.abc import Callable

from llmgw.base.clock import Clock
from llmgw.control.events import Events
from llmgw.control.feed import Feed
from llmgw.control.hardware import Hardware
from llmgw.control.inventory import device_named, merged, with_heartbeat
from llmgw.control.loads import Loads
from llmgw.control.losses import Losses
from llmgw.control.node_events import NodeEvents
from llmgw.control.nodes import Arrival, SeenNode
from llmgw.control.rooms import room
from llmgw.control.routing import Routing
from llmgw.control.shards import Shards
from llmgw.model.events import INFO, PROBLEM
from llmgw.model.feed import NODES, ROUTES, SAMPLES
from llmgw.model.gateway import Route
from llmgw.model.node import LOST, READY, Heartbeat, Inventory, Node, Register, Sample
from llmgw.model.replica import Replica
from llmgw.model.settings import LinkSettings, Settings
from llmgw.model.shard import ShardStatus
from llmgw.plan.records import Drain, Load, Observed
from llmgw.store.interface import StoredNode


class Fleet:
    """Every node, what was last said by it, and what it runs.

    Args:
        clock: silence is measured by it.
        feed: marked at each change of a node, sample or replica; routes are touched.
        events: what people should know of is told there.
        settings: those in force.
        fingerprint: what the catalog would start for (model, profile) now.
        settled: says, for the nodes that are still waited for, whether to decide without them.
        ended: called when a replica that served has ended by itself.
        routing: the routes made of this fleet.
        loads: what replicas have in flight.
        hardware: hears every heartbeat.
    """

    def __init__(
        self,
        clock: Clock,
        feed: Feed,
        events: Events,
        *,
        settings: Callable[[], Settings],
        fingerprint: Callable[[str, str], str | None],
        settled: Callable[[tuple[str, ...]], bool],
        ended: Callable[[], None],
        routing: Routing,
        loads: Loads,
        hardware: Hardware,
    ) -> None:
        self._clock = clock
        self._feed = feed
        self._events = events
        self._node_events = NodeEvents(events)
        self._settings = settings
        self._settled = settled
        self._ended = ended
        self._routing = routing
        self._loads = loads
        self._hardware = hardware
        self._nodes: dict[str, SeenNode] = {}
        self._fingerprint = fingerprint
        self._begin()
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

    def drains(self) -> tuple[Drain, ...]:
        """Return the replicas that are given up and not gone yet, by id."""
        return self.shards.given_up.all(self._loads.settled_until())

    def loads(self) -> tuple[Load, ...]:
        """Return what the replicas have in flight, by id."""
        return self._loads.all(self._nodes)

    def observed(self) -> Observed:
        """Return the fleet at this moment, as decisions are made from it."""
        waiting_for = self.waiting_for()
        now, lost_after = self._clock.monotonic(), self._link().lost_after
        return Observed(
            nodes=tuple(
                room(seen, self.shards.held_on(seen), now, lost_after)
                for _, seen in sorted(self._nodes.items())
            ),
            replicas=self.replicas(),
            failures=self.shards.failures.all(),
            settled=self._settled(waiting_for),
            waiting_for=waiting_for,
            drains=self.drains(),
            successors=self.shards.given_up.successors(),
            loads=self.loads(),
            demands=self._loads.demands(),
            mass_loss=self.losses.now,
        )

    # What nodes say.

    def load(self, nodes: tuple[StoredNode, ...]) -> None:
        """Know the nodes of the store, of which nothing was heard yet, and nothing else."""
        for node in self._nodes:
            self._feed.mark(NODES, node)
            self._feed.mark(SAMPLES, node)
        self._nodes.clear()
        self._begin()
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
        self._hear(seen)
        known = self._record(seen)
        seen.arrived(message, arrival)
        if news:
            self._node_events.tell(INFO, seen.id, f"registered from {arrival.peer}")
        else:
            self._node_events.registered(known, self._record(seen))
        self._take_inventory(seen, message.inventory)
        seen.reported = True
        if message.shards is not None:
            self.shards.replace(seen, message.shards)
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

    def certificate(self, node: str, begins: float, ends: float) -> None:
        """Note from when to when a node's newest certificate is good."""
        seen = self._nodes.get(node)
        if seen is not None:
            seen.certificate_begins, seen.certificate_ends = begins, ends
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
            self._node_events.tell(PROBLEM, seen.id, words)
        self._mark(seen)

    def wish(self, node: str, wish: str | None) -> None:
        """Cordon, drain or release a node."""
        seen = self._nodes.get(node)
        if seen is not None and seen.wish != wish:
            seen.wish = wish
            self._node_events.tell(INFO, seen.id, f"is {wish}" if wish else "is released")
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
        self.shards.look_again()
        self._node_events.tell(INFO, node, "is removed")
        self._feed.mark(NODES, node)
        self._feed.mark(SAMPLES, node)
        self._feed.touch(ROUTES)

    # Time.

    def age(self) -> tuple[Node, ...]:
        """Tell and mark the nodes whose liveness changed since it was last told; return them."""
        changed: list[Node] = []
        self.losses.look()
        for _, seen in sorted(self._nodes.items()):
            verdict = self._verdict(seen)
            if verdict != seen.told_liveness:
                seen.told_liveness = verdict
                if verdict is not None and verdict != READY:
                    self._tell_silence(seen, verdict)
                self._mark(seen)
                changed.append(self._record(seen))
        if changed:
            self._feed.touch(ROUTES)
            self.shards.look_again()
        return tuple(changed)

    def next_change(self) -> float | None:
        """Return in how many seconds of silence some node's liveness changes; None: never."""
        now, lost_after = self._clock.monotonic(), self._link().lost_after
        due = [seen.next_change(now, lost_after) for seen in self._nodes.values()]
        return min((left for left in due if left is not None), default=None)

    # Inside.

    def _begin(self) -> None:
        """Know of no replica: that another leader placed or lost meanwhile nobody has told yet."""
        self.shards = Shards(
            self._nodes,
            self._clock,
            self._feed,
            self._events,
            self._fingerprint,
            lambda: bool(self.waiting_for()),
            self._ended,
        )
        self.losses = Losses(
            self._nodes,
            self._clock,
            self._events,
            settings=self._settings,
            settled=lambda: self._settled(self.waiting_for()),
        )

    def _link(self) -> LinkSettings:
        return self._settings().link

    def _take_readings(self, seen: SeenNode, message: Heartbeat) -> None:
        """Tell what a heartbeat says that the last one did not."""
        last = seen.sample.heartbeat if seen.sample is not None else None

        def name_of(uuid: str) -> str:
            return device_named(seen.inventory, uuid)

        self._node_events.sources(seen.id, last, message)
        self._hardware.heard(seen.id, message, name_of)
        self._node_events.damage(seen.id, last, message, name_of)

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
        before, now = self._verdict(seen), self._clock.monotonic()
        back = before != READY or seen.heard is None
        if back and seen.heard is not None:
            self._node_events.tell(INFO, seen.id, f"is back ({before}, {seen.silence(now)})")
        seen.heard, seen.heard_at, seen.told_liveness = now, self._clock.now(), READY
        if back:
            seen.ready_since = self._clock.now()
            self._feed.touch(ROUTES)
        return back

    def _tell_silence(self, seen: SeenNode, verdict: str) -> None:
        replicas = (one.status.replica for one in self.shards.held_on(seen))
        alone = not self.losses.concerns(seen.id)
        silence = seen.silence(self._clock.monotonic())
        self._node_events.silent(seen.id, verdict, silence, replicas, alone=alone)

    def _take_inventory(self, seen: SeenNode, message: Inventory | None) -> bool:
        if message is None:
            return False
        inventory = merged(seen.inventory, message)
        if inventory == seen.inventory:
            return False
        self._replace_inventory(seen, inventory)
        return True

    def _replace_inventory(self, seen: SeenNode, inventory: Inventory) -> None:
        old, seen.inventory = seen.inventory, inventory
        self._node_events.inventory(seen.id, old, inventory)

    def _record(self, seen: SeenNode) -> Node:
        return seen.record(self._clock.monotonic(), self._link().lost_after)

    def _sampled(self) -> tuple[str, ...]:
        return tuple(name for name, seen in self._nodes.items() if seen.sample is not None)

    def _mark(self, seen: SeenNode) -> None:
        self._feed.mark(NODES, seen.id)
