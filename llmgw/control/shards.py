"""What runs, from the nodes' reports: shards applied one by one, replicas rebuilt from them.

What a live shard holds is held until its node says that it stopped or failed, or registers again
without it; a start that was sent holds what it was given from before it is sent (invariant 3).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial

from llmgw.base.clock import Clock
from llmgw.control.events import Events
from llmgw.control.failures import FAILED_FOR, Failures
from llmgw.control.feed import Feed
from llmgw.control.givenup import GivenUp
from llmgw.control.givenup import Shard as Told
from llmgw.control.missing import Awaited, Missing, gone_from, missing
from llmgw.control.nodes import Placed, SeenNode, ShardKey, holds
from llmgw.control.pending import Pending, PendingStarts
from llmgw.control.replicas import latest, rebuild
from llmgw.control.shard_events import ShardEvents, model_of
from llmgw.model.events import WARNING
from llmgw.model.feed import REPLICAS, ROUTES
from llmgw.model.replica import Replica
from llmgw.model.shard import FAILED, STOPPED, ShardStatus
from llmgw.plan.records import StartReplica

MOST_SHARDS = 512
"""Shards of one node: what it says beyond that is not taken."""

FAILED_KEPT = 3
"""Failed shards of one model that stay visible with their reason; older ones are forgotten."""


class Shards:
    """Every shard that a node reported, every start on its way, and the replicas made of them.

    Invariant: a replica's record is marked once for each message that changed it.

    Args:
        nodes: the fleet's nodes; their `shards` are written here alone.
        fingerprint: what the catalog would start for (model, profile) now.
        awaited: asked once for all replicas that are rebuilt together.
        on_end: called when a replica that served has ended by itself.
    """

    def __init__(
        self,
        nodes: Mapping[str, SeenNode],
        clock: Clock,
        feed: Feed,
        events: Events,
        fingerprint: Callable[[str, str], str | None],
        awaited: Awaited,
        on_end: Callable[[], None],
    ) -> None:
        self._nodes = nodes
        self._clock = clock
        self._feed = feed
        self._fingerprint = fingerprint
        self._awaited = awaited
        self._several: set[str] = set()
        """Replicas of several nodes."""
        self._where: dict[str, set[str]] = {}
        self.given_up = GivenUp(clock)
        self._records: dict[str, Replica] = {}
        self.failures = Failures()
        self._events = ShardEvents(clock, events, self.failures, on_end)
        self.pending = PendingStarts()
        feed.serve(REPLICAS, self.ids, self.replica)

    # Reads.

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all replicas."""
        return tuple(sorted(self._where.keys() | self.pending.replicas()))

    def replica(self, replica: str) -> Replica | None:
        """Return one replica; None when nothing is known of it."""
        return self._replica(replica, cache(self._awaited))

    def all(self) -> tuple[Replica, ...]:
        """Return all replicas, by id."""
        awaited = cache(self._awaited)
        found = (self._replica(replica, awaited) for replica in self.ids())
        return tuple(replica for replica in found if replica is not None)

    def held_on(self, node: SeenNode) -> list[Placed]:
        """Return what holds something on a node: its live shards and the starts on their way."""
        live = [Placed(node.id, one) for one in node.live_shards()]
        there = {(one.status.replica, one.status.rank) for one in live}
        coming = [
            Placed(node.id, one.status())
            for one in self.pending.on(node.id)
            if (one.spec.replica, one.spec.rank) not in there
        ]
        return live + coming

    # Reports.

    def report(self, node: SeenNode, status: ShardStatus) -> None:
        """Apply one shard's status."""
        self._apply(node, status)
        if status.state == FAILED:
            self._keep_few_failures({model_of(node.shards.get((status.replica, status.rank)))})
        self._changed((status.replica,))

    def replace(self, node: SeenNode, statuses: tuple[ShardStatus, ...]) -> None:
        """Apply everything that a node says it runs: what it does not name is gone."""
        node.listed = True
        self.given_up.returned(node.id)
        told = {(one.replica, one.rank) for one in statuses}
        changed = {one.replica for one in statuses}
        for key, known in tuple(node.shards.items()):
            if key not in told:
                self._drop(node, key)
                changed.add(key[0])
                if holds(known):
                    words = f"is gone: {node.id} returned without it"
                    self._events.tell(WARNING, key[0], words, node.id)
        for pending in self.pending.on(node.id):
            key = (pending.spec.replica, pending.spec.rank)
            if key not in told:
                self.pending.drop(*key)
                changed.add(key[0])
        for status in statuses:
            self._apply(node, status)
        failed = [one for one in node.shards.values() if one.state == FAILED]
        if failed:
            self._keep_few_failures({model_of(one) for one in failed})
        self._changed(changed)
        self.look_again()

    def look_again(self) -> None:
        """Judge replicas of several nodes anew: a node that was waited for is there, or gone."""
        awaited = cache(self._awaited)
        for replica in sorted(self._several):
            before = self._records.pop(replica, None)
            if before is not None and self._replica(replica, awaited) != before:
                self._changed((replica,))

    def forget(self, node: SeenNode) -> None:
        """Forget all that a removed node ran."""
        changed = {key[0] for key in node.shards}
        for key in tuple(node.shards):
            self._drop(node, key)
        for pending in self.pending.on(node.id):
            self.pending.drop(pending.spec.replica, pending.spec.rank)
            changed.add(pending.spec.replica)
        self.failures.forgive(node=node.id)
        self._changed(changed)

    # What is sent.

    def begin(self, step: StartReplica) -> None:
        """Book what a replica is given, before its start is sent."""
        for one in step.shards:
            self.pending.add(
                Pending(
                    node=one.node,
                    spec=one.spec,
                    sent=self._clock.monotonic(),
                    at=self._clock.now(),
                )
            )
        if len(step.shards) > 1:
            self._several.add(step.replica)
        self.given_up.begins((step.model, step.profile))
        self._changed((step.replica,))

    def accepted(self, replica: str, rank: int) -> None:
        """Note that an agent took a start."""
        self.pending.accepted(replica, rank)
        self._changed((replica,))

    def withdraw(self, replica: str, rank: int) -> None:
        """Note that a start never left: nothing is held, and nobody is to blame."""
        self.pending.drop(replica, rank)
        self._changed((replica,))

    def refused(self, replica: str, rank: int, words: str) -> None:
        """Note that a start was refused: nothing is held, and it counts as failed."""
        pending = self.pending.drop(replica, rank)
        if pending is not None:
            self._events.failed_start(pending.spec.model, pending.node, replica, words)
        self._changed((replica,))

    def draining(self, replica: str, words: str, *, for_successor: bool = False) -> None:
        """Note that a replica is given up: it leaves the routes and goes on with what it serves.

        `for_successor`: another one of its profile is to have its place.
        """
        known = self.replica(replica) if for_successor else None
        successor = (known.model or "", known.profile or "") if known is not None else None
        if self._there(replica) and self.given_up.add(replica, words, successor):
            self._changed((replica,))

    def going_on(self, replica: str) -> None:
        """Note that a replica that was given up goes on: it returns to the routes."""
        self.given_up.goes_on(replica)
        self._changed((replica,))

    def stopping(self, replica: str, words: str, shards: Collection[Told]) -> None:
        """Note that shards of a replica are being stopped, before their nodes are told."""
        if not self._there(replica):
            return
        self.given_up.add(replica, words)
        if self.given_up.told(replica, shards):
            self._changed((replica,))  # from now on its shards go one by one, as they should

    def unknown_there(self, node: str, replica: str, rank: int) -> None:
        """Note that a node, asked to stop a shard, knows no such shard: it runs there no more."""
        seen = self._nodes.get(node)
        if seen is not None:
            words = "its node knows no such shard"
            self.report(seen, ShardStatus(replica=replica, rank=rank, state=STOPPED, reason=words))

    # Time.

    def expire(self, grace: float) -> tuple[str, ...]:
        """Give up what was sent and never answered, and forget old failures; return what, in words.

        Args:
            grace: seconds that a start or a stop may stay without a report.
        """
        now = self._clock.monotonic()
        overdue_starts = self.pending.overdue(now, grace)
        words = [self._give_up(pending, grace) for pending in overdue_starts]
        self.given_up.expire(grace)
        for node, key in self._old_failures():
            self._drop(node, key)
            self._changed((key[0],))
        return tuple(words)

    def catalog_changed(self, model: str) -> None:
        """Compare a model's replicas with the catalog again; its failures are forgiven."""
        self.failures.forgive(model=model)
        self._changed(one.id for one in self.all() if one.model == model)
        self._feed.touch(ROUTES)

    # Inside.

    def _give_up(self, pending: Pending, grace: float) -> str:
        """Wait for a start no longer, and return that in words.

        An agent may have begun it and not said so: what it was given stays booked until the node
        reports it or registers again without it (invariant 3).
        """
        spec, node = pending.spec, pending.node
        pending.given_up = True
        why = f"no answer and no report within {grace:g}s of its start command"
        self._events.failed_start(spec.model, node, spec.replica, why)
        self._changed((spec.replica,))
        return f"gave up the start of {spec.replica} on {node}"

    def _replica(self, replica: str, awaited: Awaited) -> Replica | None:
        known = self._records.get(replica)
        if known is not None:
            return known
        placed = self._placed(replica)
        if not placed:
            return None
        record = rebuild(
            replica,
            placed,
            fingerprint=self._fingerprint,
            missing=self._missing(replica, placed, awaited),
            draining=self.given_up.words(replica),
            ordered=self.given_up.ordered(replica),
        )
        self._records[replica] = record
        return record

    def _missing(
        self, replica: str, placed: Sequence[Placed], awaited: Awaited
    ) -> tuple[Missing, ...]:
        """Return the shards that a replica lacks; one that was told to stop lacks none."""
        if replica not in self._several or self.given_up.ordered(replica):
            return ()
        return missing(placed, partial(gone_from, self._nodes, awaited), nodes=len(self._nodes))

    def _there(self, replica: str) -> bool:
        return replica in self._where or bool(self.pending.of(replica))

    def _placed(self, replica: str) -> list[Placed]:
        placed = [
            Placed(name, status)
            for name in sorted(self._where.get(replica, ()))
            for key, status in sorted(
                (key, status)
                for key, status in self._nodes[name].shards.items()
                if key[0] == replica and key not in self._nodes[name].foreign
            )
        ]
        there = {one.status.rank for one in placed}
        coming = [Placed(one.node, one.status()) for one in self.pending.of(replica)]
        return placed + [one for one in coming if one.status.rank not in there]

    def _apply(self, node: SeenNode, told: ShardStatus) -> None:
        key = (told.replica, told.rank)
        if not self._room_for(node, key):
            words = f"is not taken: {node.id} has {MOST_SHARDS} shards already"
            self._events.tell(WARNING, key[0], words, node.id)
            return
        foreign = self._is_anothers(node, key)
        self.pending.drop(*key, node=node.id)
        known = node.shards.get(key)
        status = latest(known, told)
        if foreign:
            self._note_foreign(node, key)
        else:
            node.foreign.discard(key)
            self._events.reported(node, key, known, status)
        if status.state == STOPPED:
            self._drop(node, key)
            return
        node.shards[key] = status
        if status.spec is not None and status.spec.rendezvous is not None:
            self._several.add(told.replica)
        self._where.setdefault(told.replica, set()).add(node.id)

    def _room_for(self, node: SeenNode, key: ShardKey) -> bool:
        """Say whether one more shard of a node can be kept; one that is over gives way."""
        if key in node.shards or len(node.shards) < MOST_SHARDS:
            return True
        over = next((one for one, status in node.shards.items() if not holds(status)), None)
        if over is not None:
            self._drop(node, over)
            self._changed((over[0],))
        return over is not None

    def _is_anothers(self, node: SeenNode, key: ShardKey) -> bool:
        """Say whether a shard that a node reports runs on another, or was sent there.

        Each shard has one place: a machine that was copied with its agent's records, or that lies,
        must neither draw another's requests and key nor make its replica look failed.
        """
        if key in node.shards and key not in node.foreign:
            return False
        others = (self._nodes[name] for name in self._where.get(key[0], ()) if name != node.id)
        runs = any(
            holds(other.shards[key])
            for other in others
            if key in other.shards and key not in other.foreign
        )
        coming = self.pending.of(key[0])
        return runs or any(one.spec.rank == key[1] and one.node != node.id for one in coming)

    def _note_foreign(self, node: SeenNode, key: ShardKey) -> None:
        if key not in node.foreign:
            node.foreign.add(key)
            words = f"runs elsewhere, and {node.id} says it has it: ignored"
            self._events.tell(WARNING, key[0], words, node.id)

    def _drop(self, node: SeenNode, key: ShardKey) -> None:
        node.shards.pop(key, None)
        if key in node.foreign:
            node.foreign.discard(key)
        else:
            for name in self._where.get(key[0], ()):
                self._nodes[name].foreign.discard(key)
        node.ready_shards.pop(key, None)
        if not any(other[0] == key[0] for other in node.shards):
            nodes = self._where.get(key[0], set())
            nodes.discard(node.id)
            if not nodes:
                self._where.pop(key[0], None)

    def _keep_few_failures(self, models: set[str | None]) -> None:
        failed: dict[str | None, list[tuple[float, SeenNode, ShardKey]]] = {}
        for node in self._nodes.values():
            for key, status in node.shards.items():
                if status.state == FAILED and model_of(status) in models:
                    one = (status.since or 0.0, node, key)
                    failed.setdefault(model_of(status), []).append(one)
        for found in failed.values():
            for _, node, key in sorted(found, key=lambda one: one[0])[:-FAILED_KEPT]:
                self._drop(node, key)
                self._changed((key[0],))

    def _old_failures(self) -> list[tuple[SeenNode, ShardKey]]:
        now = self._clock.now()
        return [
            (node, key)
            for node in self._nodes.values()
            for key, status in node.shards.items()
            if status.state == FAILED
            and status.since is not None
            and now - status.since >= FAILED_FOR
        ]

    def _changed(self, replicas: Iterable[str]) -> None:
        for replica in sorted(set(replicas)):
            self._records.pop(replica, None)
            if not self._there(replica):
                self.given_up.gone(replica)
                self._several.discard(replica)
            self._feed.mark(REPLICAS, replica)
            self._feed.touch(ROUTES)
