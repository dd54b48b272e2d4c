"""`check`: a lint over plans, run before each is carried out.

It shares nothing with what makes plans but the records: a mistake there has to be made twice to get
through. A plan with a problem is not carried out (invariant 3).
"""

from collections.abc import Iterator, Mapping

from llmgw.model.node import READY
from llmgw.model.record import Problem
from llmgw.plan.lint.ledger import Ledger
from llmgw.plan.lint.network import span
from llmgw.plan.records import (
    Assignment,
    Desired,
    DrainReplica,
    EvictReplica,
    KeepReplica,
    NodeRoom,
    Observed,
    Plan,
    PreemptReplica,
    StartReplica,
    StopReplica,
)


def check(plan: Plan, desired: Desired, observed: Observed) -> tuple[Problem, ...]:
    """Return every problem of a plan, each with the step it is in; empty when it is sound."""
    return tuple(_Check(desired, observed).problems(plan))


class _Check:
    def __init__(self, desired: Desired, observed: Observed) -> None:
        self._desired = desired
        self._observed = observed
        self._rooms: Mapping[str, NodeRoom] = {room.node.id: room for room in observed.nodes}
        self._models = {
            (entry.model.name, profile.name): profile
            for entry in desired.models
            for profile in entry.model.profiles
        }
        self._there = {
            (replica.id, shard.node, shard.rank)
            for replica in observed.replicas
            for shard in replica.shards
        }
        self._there |= {
            (booking.replica, room.node.id, booking.rank)
            for room in observed.nodes
            for booking in room.bookings
        }
        self._known = {replica for replica, _, _ in self._there}
        self._profiles = {
            replica.id: self._models.get((replica.model or "", replica.profile or ""))
            for replica in observed.replicas
        }
        self._ledger = Ledger(observed)

    def problems(self, plan: Plan) -> Iterator[Problem]:
        if plan.steps and not self._observed.settled:
            yield Problem(path="steps", words="the fleet has not settled: nothing may be done yet")
        seen: set[str] = set()
        for number, step in enumerate(plan.steps):
            path = f"steps[{number}]"
            if step.replica in seen:
                yield Problem(path=path, words=f"{step.replica} is in the plan twice")
            seen.add(step.replica)
            match step:
                case StartReplica():
                    yield from self._start(path, step)
                case StopReplica():
                    yield from self._stop(path, step)
                case DrainReplica():
                    yield from self._is_there(path, step.replica)
                case EvictReplica() | PreemptReplica():
                    yield from self._is_there(path, step.replica)
                    yield from self._gives_way(path, step)
                case KeepReplica():
                    yield from self._goes_on(path, step)

    def _start(self, path: str, step: StartReplica) -> Iterator[Problem]:
        if self._desired.settings.serving.stopped:
            yield Problem(path=path, words="starts something while the cluster is stopped")
        if (step.model, step.profile) not in self._models:
            yield Problem(path=path, words=f"{step.model} is not in the catalog")
        if step.replica in self._known:
            yield Problem(path=path, words=f"{step.replica} is there already")
        if not step.shards:
            yield Problem(path=path, words=f"{step.replica} has no shards")
        ranks = [one.spec.rank for one in step.shards]
        if sorted(ranks) != list(range(len(ranks))):
            yield Problem(path=path, words=f"{step.replica} has the ranks {ranks}")
        for one in step.shards:
            yield from self._shard(path, step, one)
        yield from span(path, step, self._observed, self._rooms)

    def _shard(self, path: str, step: StartReplica, one: Assignment) -> Iterator[Problem]:
        if one.spec.replica != step.replica:
            yield Problem(path=path, words=f"{step.replica} has a shard of {one.spec.replica}")
        room = self._rooms.get(one.node)
        if room is None:
            yield Problem(path=path, words=f"{one.node}: there is no such node")
            return
        node = room.node
        if node.liveness != READY:
            state = node.liveness or "not heard of yet"
            yield Problem(path=path, words=f"{node.id} is {state}")
        if node.wish is not None:
            yield Problem(path=path, words=f"{node.id} is {node.wish}")
        if room.lent is not None:
            yield Problem(path=path, words=f"{node.id} is lent to {room.lent}")
        if node.liveness == READY and node.id in self._observed.waiting_for:
            yield Problem(path=path, words=f"{node.id} has not reported what it runs")
        yield from self._ledger.give(path, room, one)

    def _stop(self, path: str, step: StopReplica) -> Iterator[Problem]:
        if not step.shards:
            yield Problem(path=path, words=f"{step.replica}: stops no shard")
        for node, rank in step.shards:
            if (step.replica, node, rank) not in self._there:
                yield Problem(path=path, words=f"{step.replica}/{rank} is not on {node}")

    def _is_there(self, path: str, replica: str) -> Iterator[Problem]:
        if replica not in self._known:
            yield Problem(path=path, words=f"{replica} is not there")

    def _goes_on(self, path: str, step: KeepReplica) -> Iterator[Problem]:
        """Yield what speaks against a replica that is to serve again."""
        drain = next((d for d in self._observed.drains if d.replica == step.replica), None)
        if drain is None:
            yield Problem(path=path, words=f"{step.replica} was not given up")
        elif drain.told or drain.told_before:
            yield Problem(path=path, words=f"{step.replica} was told to stop")
        if self._profiles.get(step.replica) is None:
            yield Problem(path=path, words=f"{step.replica} is of no model in the catalog")
        if self._desired.settings.serving.stopped:
            yield Problem(path=path, words=f"{step.replica} goes on while the cluster is stopped")

    def _gives_way(self, path: str, step: EvictReplica | PreemptReplica) -> Iterator[Problem]:
        """Yield that a replica has to go for something that is not above it.

        One that is idle may give way to an equal; one that serves goes for a higher priority alone.
        """
        mine, to = self._profiles.get(step.replica), step.gives_way_to
        other = self._models.get(to)
        if other is None:
            words = f"{step.replica} gives way to {to[0]}, not in the catalog"
            yield Problem(path=path, words=words)
            return
        if mine is None:
            return
        least = mine.priority + isinstance(step, PreemptReplica)
        if other.priority < least:
            words = (
                f"{step.replica} of priority {mine.priority} gives way to {to[0]} "
                f"of priority {other.priority}"
            )
            yield Problem(path=path, words=words)
