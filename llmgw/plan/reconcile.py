"""`reconcile`: what has to be started and stopped so that what runs is what is wanted (REC-1).

Pure and idempotent: the same fleet gives the same plan, and a fleet on which the plan was carried
out gives an empty one. What can't be done now is not remembered: the next pass finds it again.
Replicas of a lost node are waited for: nothing takes their place until they are outdated or the
node is drained or removed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from llmgw.model.node import READY, Node
from llmgw.model.replica import LEAVING, Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.backoff import RULE as FAILURES
from llmgw.plan.backoff import HeldBack, held_back
from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.place import Placement, book, place
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import (
    Candidate,
    Desired,
    Observed,
    Plan,
    Refusal,
    StartReplica,
    StopReplica,
)
from llmgw.plan.sentence import sentence, waits_to_settle
from llmgw.plan.standing import Standing, live_shards
from llmgw.plan.start import start
from llmgw.plan.wanted import Group, group, profiles, stops


def reconcile(
    desired: Desired,
    observed: Observed,
    now: float,
    *,
    number: int,
    parent: int | None,
    new_id: Callable[[str], str],
) -> Plan:
    """Return the plan of one pass.

    Args:
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds, on the clock of the failures in `observed`.
        number: of this plan.
        parent: the plan before it.
        new_id: makes a replica's id from its model's name; asked again when one is taken.
    """
    if not observed.settled:
        return Plan(number=number, parent=parent, sentence=waits_to_settle(observed))
    done = _Pass(desired, observed, now, new_id)
    done.run()
    return Plan(
        number=number,
        parent=parent,
        steps=(*done.stops, *done.starts),
        refusals=tuple(done.refusals),
        sentence=sentence(desired, observed, done.stops, done.starts, done.refusals),
    )


@dataclass
class _Pass:
    """One pass under way: gives up what is too much first, then places what is missing."""

    desired: Desired
    observed: Observed
    now: float
    new_id: Callable[[str], str]
    stops: list[StopReplica] = field(default_factory=list)
    starts: list[StartReplica] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def run(self) -> None:
        self.nodes: Mapping[str, Node] = {room.node.id: room.node for room in self.observed.nodes}
        self.ids = {replica.id for replica in self.observed.replicas}
        groups = self._groups()
        for found in groups:
            for one, words in stops(found, self.nodes, stopped=self._stopped):
                self._stop(one, words)
        self._stop_rest()
        self.room = Room(self.observed, self._leaving())
        for found in sorted(groups, key=lambda one: -one.profile.priority):
            self._fill(found)

    @property
    def _stopped(self) -> bool:
        return self.desired.settings.serving.stopped

    def _groups(self) -> list[Group]:
        """Return every profile of the catalog with its replicas; stop those of none."""
        of_profile: dict[tuple[str, str], list[Replica]] = {}
        known = profiles(self.desired)
        for replica in sorted(self.observed.replicas, key=lambda one: one.id):
            if replica.model is None or replica.profile is None:
                continue  # nobody can describe it: what it holds stays held, its node ends it
            key = (replica.model, replica.profile)
            if key in known:
                of_profile.setdefault(key, []).append(replica)
            else:
                self._stop_stray(replica, key, known)
        return [
            group(model, profile, of_profile.get(key, ()), self.nodes, stopped=self._stopped)
            for key, (model, profile) in sorted(known.items())
        ]

    def _stop_stray(
        self, replica: Replica, key: tuple[str, str], known: Mapping[tuple[str, str], object]
    ) -> None:
        model_left = not any(model == key[0] for model, _ in known)
        what = "its model" if model_left else f"its profile {key[1]!r}"
        if replica.state not in LEAVING:
            self._stop_shards(replica, f"{what} left the catalog")

    def _stop(self, one: Standing, words: str) -> None:
        if one.reachable:
            self._stop_shards(one.replica, words)

    def _stops_any(self, standings: Iterable[Standing]) -> bool:
        stopped = {step.replica for step in self.stops}
        return any(one.replica.id in stopped for one in standings)

    def _stop_rest(self) -> None:
        """Stop what is left of replicas of which a shard failed (REC-10)."""
        for replica in sorted(self.observed.replicas, key=lambda one: one.id):
            if replica.state in {FAILED, STOPPED} and replica.model is not None:
                words = f"a shard of it {replica.state}: {replica.reason or 'no reason said'}"
                self._stop_shards(replica, words)

    def _stop_shards(self, replica: Replica, words: str) -> None:
        """Stop the shards that may run on nodes that can be told; once a plan."""
        if any(step.replica == replica.id for step in self.stops):
            return
        shards = tuple(
            (shard.node, shard.rank)
            for shard in live_shards(replica)
            if shard.node in self.nodes and self.nodes[shard.node].liveness == READY
        )
        if shards:
            self.stops.append(StopReplica(replica=replica.id, shards=shards, words=words))

    def _leaving(self) -> set[str]:
        going = {one.id for one in self.observed.replicas if one.state in LEAVING}
        return going | {step.replica for step in self.stops}

    def _fill(self, found: Group) -> None:
        """Place what a profile lacks, one replica after the other, until one can't be placed."""
        if not found.missing and (not found.to_replace or self._stops_any(found.old)):
            return
        model = found.model
        held = held_back(
            (one for one in self.observed.failures if one.model == model.name), self.now
        )
        wanted = request(
            model, found.profile, ordered=self.desired.settings.engines, held_back=held.passed_over
        )
        for placed in range(found.missing or found.to_replace):
            answer = self._place(wanted, held)
            if isinstance(answer, Refusal):
                if found.missing or _waits(answer) or not self._make_room(found, wanted, held):
                    self.refusals.append(answer)
                return
            has = found.present + placed
            self._start(found, wanted, answer, f"{found.wanted} wanted, {has} there")

    def _place(self, wanted: Request, held: HeldBack) -> Placement | Refusal:
        """Place past the nodes that failed too often; on them only when nothing else fits."""
        answer = place(wanted, self.room)
        if isinstance(answer, Refusal) and len(held.resting) < len(held.passed_over):
            again = place(replace(wanted, held_back=held.resting), self.room)
            answer = answer if isinstance(again, Refusal) else again
        if isinstance(answer, Refusal):
            return answer
        waiting = [held.waiting[s.node] for s in answer.seats if s.node in held.waiting]
        if not waiting:
            return answer
        return Refusal(
            model=wanted.model.name,
            profile=wanted.profile.name,
            candidates=tuple(
                Candidate(node=seat.node, verdict=held.waiting[seat.node])
                for seat in answer.seats
                if seat.node in held.waiting
            ),
            words=waiting[0].words,
        )

    def _start(self, found: Group, wanted: Request, placement: Placement, why: str) -> None:
        replica = self.new_id(found.model.name)
        while replica in self.ids:
            replica = self.new_id(found.model.name)
        self.ids.add(replica)
        book(replica, wanted, placement, self.room)
        scores = ", ".join(f"{rule} {score}" for rule, score in placement.scores.items())
        nodes = ", ".join(seat.node for seat in placement.seats)
        words = f"{why}; {nodes} scores best ({scores})"
        self.starts.append(start(replica, wanted, found.fingerprint, placement, words))

    def _make_room(self, found: Group, wanted: Request, held: HeldBack) -> bool:
        """Stop one outdated replica first, where only that lets its successor start.

        One at a time, and never one that is outdated only because its node is draining: its place
        is on another node, and stopping it would make no room there.
        """
        for one in found.old:
            nodes = [shard.node for shard in one.replica.shards]
            failed = any(node in held.waiting or node in held.passed_over for node in nodes)
            if not one.reachable or one.on_draining or failed:
                continue
            spaces = [self.room.spaces[node] for node in nodes]
            if all(first_refusal(wanted, s.without(one.replica.id)) is None for s in spaces):
                self._stop(one, f"{one.outdated}; there is no room for both")
                self.room.leaving.add(one.replica.id)
                return True
        return False


def _waits(refusal: Refusal) -> bool:
    """Say whether there is room, and only a failed start is waited for."""
    return all(one.verdict.rule == FAILURES for one in refusal.candidates)
