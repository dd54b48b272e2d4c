"""`reconcile`: what has to be started and stopped so that what runs is what is wanted (REC-1).

Pure and idempotent: the same fleet gives the same plan, and a fleet on which the plan was carried
out gives an empty one. What can't be done now is not remembered: the next pass finds it again.
Replicas of a lost node are waited for: nothing takes their place until they are outdated, the node
is drained or removed, or their model's policy says so. One that serves is given up in two steps: it
leaves the routes, and is stopped by a later plan when what it has begun is done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmgw.model.catalog import Model, Profile
from llmgw.model.node import READY
from llmgw.model.replica import DRAINING, LEAVING, Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.model.shard import READY as SHARD_READY
from llmgw.plan.backoff import RULE as FAILURES
from llmgw.plan.backoff import HeldBack, held_back
from llmgw.plan.drain import may_stop
from llmgw.plan.giveway import Way, after, candidates, make_way
from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.place import Placement, book, place
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.placement.scores import total
from llmgw.plan.records import (
    NEVER,
    Candidate,
    Desired,
    DrainReplica,
    EvictReplica,
    Observed,
    Plan,
    PreemptReplica,
    Refusal,
    StartReplica,
    Step,
    StopReplica,
)
from llmgw.plan.returned import Worth
from llmgw.plan.sentence import sentence, waits_to_settle
from llmgw.plan.standing import Nodes, Standing, live_shards
from llmgw.plan.start import start
from llmgw.plan.wanted import Group, group, profiles, stops
from llmgw.plan.weights_known import WeightsKnown


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
    steps: tuple[Step, ...] = (*done.stops, *done.drains, *done.yields, *done.starts)
    return Plan(
        number=number,
        parent=parent,
        steps=steps,
        refusals=tuple(done.refusals),
        sentence=sentence(desired, observed, steps, done.refusals),
    )


@dataclass
class _Pass:
    """One pass under way: gives up what is too much first, then places what is missing."""

    desired: Desired
    observed: Observed
    now: float
    new_id: Callable[[str], str]
    stops: list[StopReplica] = field(default_factory=list)
    drains: list[DrainReplica] = field(default_factory=list)
    yields: list[EvictReplica | PreemptReplica] = field(default_factory=list)
    starts: list[StartReplica] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    waiting: list[Group] = field(default_factory=list)
    """Profiles for which there is room, and only a failed start is waited for."""

    def run(self) -> None:
        observed = self.observed
        lost = observed.mass_loss
        self.nodes = Nodes(
            by_id={room.node.id: room.node for room in observed.nodes},
            lost_for={r.node.id: r.lost_for for r in observed.nodes if r.lost_for is not None},
            lost_together=lost.nodes if lost is not None else (),
        )
        self.wants = {(one.model, one.profile): one for one in self.desired.wants}
        self.ids = {replica.id for replica in observed.replicas}
        self._stop_drained()
        self.groups = self._groups()
        self.future: Room | None = None
        before = Room(observed)
        for found in self.groups:
            worth = self._worth(found, before)
            for one, words in stops(found, self.nodes, worth):
                self._give_up(one, words)
        self._stop_rest()
        self.room = Room(observed, self._leaving())
        self.weights = WeightsKnown(observed.nodes)
        if lost is not None and lost.blind:
            return  # what is missing may run where nobody can be asked
        self._fill_all()

    @property
    def _stopped(self) -> bool:
        return self.desired.settings.serving.stopped

    def _worth(self, found: Group, room: Room) -> Worth:
        """Return what scores the place of a replica of a profile, as if it were to be placed."""

        def worth(one: Standing) -> int:
            wanted = request(found.model, found.profile)
            spaces = [room.spaces[s.node] for s in one.replica.shards if s.node in room.spaces]
            return sum(total(wanted, space.without(one.replica.id)) for space in spaces)

        return worth

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
            self._group(key, model, profile, of_profile.get(key, ()))
            for key, (model, profile) in sorted(known.items())
        ]

    def _stop_stray(
        self, replica: Replica, key: tuple[str, str], known: Mapping[tuple[str, str], object]
    ) -> None:
        model_left = not any(model == key[0] for model, _ in known)
        what = "its model" if model_left else f"its profile {key[1]!r}"
        if replica.state == SHARD_READY:
            self._drain(replica, f"{what} left the catalog")
        elif replica.state not in LEAVING:
            self._stop_shards(replica, f"{what} left the catalog")

    def _group(
        self, key: tuple[str, str], model: Model, profile: Profile, replicas: Sequence[Replica]
    ) -> Group:
        want = self.wants.get(key)
        wanted, why = profile.replicas, ""
        if self._stopped:
            wanted, why = 0, "the cluster is stopped"
        elif want is not None:
            wanted, why = want.replicas, want.words
        return group(model, profile, replicas, self.nodes, wanted=wanted, why=why)

    def _give_up(self, one: Standing, words: str) -> None:
        """Let a replica finish what it serves; stop at once what serves nothing."""
        if one.reachable and one.ready:
            self._drain(one.replica, words)
        elif one.reachable:
            self._stop_shards(one.replica, words)

    def _drain(self, replica: Replica, words: str) -> None:
        nodes = [self.nodes.by_id.get(shard.node) for shard in replica.shards]
        if any(node is not None and node.liveness == READY for node in nodes):
            self.drains.append(DrainReplica(replica=replica.id, words=words))

    def _stop_drained(self) -> None:
        """Stop what was given up and has finished, or had its time."""
        loads = {load.replica: load for load in self.observed.loads}
        by_id = {replica.id: replica for replica in self.observed.replicas}
        limit = self.desired.settings.reconcile.drain_limit
        for drain in self.observed.drains:
            replica = by_id.get(drain.replica)
            if replica is None or drain.told or replica.state != DRAINING:
                continue
            why = may_stop(drain, loads.get(drain.replica), limit)
            if why is not None:
                self._stop_shards(replica, f"{drain.words}; {why}")

    def _gives_up_any(self, standings: Iterable[Standing]) -> bool:
        given_up = self._given_up()
        return any(one.replica.id in given_up for one in standings)

    def _given_up(self) -> set[str]:
        steps: tuple[Step, ...] = (*self.stops, *self.drains, *self.yields)
        return {step.replica for step in steps}

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
            if (node := self.nodes.by_id.get(shard.node)) is not None and node.liveness == READY
        )
        if shards:
            self.stops.append(StopReplica(replica=replica.id, shards=shards, words=words))

    def _leaving(self) -> set[str]:
        going = {one.id for one in self.observed.replicas if one.state in LEAVING}
        return going | self._given_up()

    def _fill_all(self) -> None:
        """Place what is missing, the highest priority first.

        What only waits after a failed start is looked at again once all others have their places:
        another node may suit it best by then, as the next plan would find.
        """
        todo = sorted(self.groups, key=lambda one: -one.profile.priority)
        while todo:
            before, self.waiting = len(self.starts), []
            for found in todo:
                self._fill(found)
            todo = self.waiting if len(self.starts) > before else []
            again = {(one.model.name, one.profile.name) for one in todo}
            self.refusals = [r for r in self.refusals if (r.model, r.profile) not in again]

    def _yielded(self, found: Group) -> int:
        """Return how many of a profile's replicas give way in this plan to higher priorities."""
        gone = {step.replica for step in self.yields}
        return sum(one.replica.id in gone for one in (*found.good, *found.old))

    def _started(self, found: Group) -> int:
        """Return how many of a profile this plan starts already."""
        key = (found.model.name, found.profile.name)
        return sum((step.model, step.profile) == key for step in self.starts)

    def _fill(self, found: Group) -> None:
        """Place what a profile lacks, one replica after the other, until one can't be placed."""
        started = self._started(found)
        missing = found.missing + self._yielded(found) - started
        if missing <= 0 and (started or not found.to_replace or self._gives_up_any(found.old)):
            return
        model = found.model
        held = held_back(
            (one for one in self.observed.failures if one.model == model.name), self.now
        )
        wanted = request(
            model,
            found.profile,
            ordered=self.desired.settings.engines,
            held_back=held.passed_over,
            device_memory_bytes=self.weights.least_on_device(model, found.profile),
        )
        for placed in range(started, started + (max(missing, 0) or found.to_replace)):
            answer = self._place(wanted, held)
            if isinstance(answer, Refusal):
                if _waits(answer):
                    self.waiting.append(found)
                if missing > 0:
                    self.refusals.append(self._clear_a_place(found, wanted, held, answer))
                elif _waits(answer) or not self._make_room(found, wanted, held):
                    self.refusals.append(answer)
                return
            has = found.present - self._yielded(found) + placed
            self._start(found, wanted, answer, _why(found, has, placed))

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
        self._book(replica, wanted, placement)
        scores = ", ".join(f"{rule} {score}" for rule, score in placement.scores.items())
        nodes = ", ".join(seat.node for seat in placement.seats)
        words = f"{why}; {nodes} scores best ({scores})"
        self.starts.append(start(replica, wanted, found.fingerprint, placement, words))

    def _book(self, replica: str, wanted: Request, placement: Placement) -> None:
        book(replica, wanted, placement, self.room)
        if self.future is not None:
            book(replica, wanted, placement, self.future)

    def _clear_a_place(
        self, found: Group, wanted: Request, held: HeldBack, refusal: Refusal
    ) -> Refusal:
        """Let others give way to a replica that fits nowhere, and keep the place for it (REC-7).

        Never for one that would not be started anyway, after failed starts; and never while many
        nodes are lost. What goes already is waited for before anybody else is asked to go.
        """
        leaving = frozenset(self._leaving())
        there = candidates(found, self.groups, self.observed, leaving)
        never = {one.node for one in refusal.candidates if one.verdict.kind == NEVER}
        there = [one for one in there if not one.nodes <= never]
        if not (there or leaving) or self.observed.mass_loss is not None or _waits(refusal):
            return refusal
        if self.future is None:
            self.future = after(self.room, leaving)
        asked = replace(wanted, held_back={**held.passed_over, **held.waiting})
        answer = place(asked, self.future)
        if isinstance(answer, Refusal):
            way = make_way(asked, there, self.future)
            if way is None:
                return refusal
            self._give_way(found, way)
            answer, again = way.placement, self._place(wanted, held)
            refusal = again if isinstance(again, Refusal) else refusal
        self._book(f"what {found.model.name} waits for", wanted, answer)
        return refusal

    def _give_way(self, found: Group, way: Way) -> None:
        to = (found.model.name, found.profile.name)
        above = f"{found.model.name} (priority {found.profile.priority})"
        for one in way.gives_way:
            name, priority = one.replica, one.group.profile.priority
            if one.idle:
                words = f"it has nothing to do, and {above} can't be placed otherwise"
                self.yields.append(EvictReplica(replica=name, gives_way_to=to, words=words))
            else:
                words = f"its priority is {priority}, and {above} can't be placed otherwise"
                self.yields.append(PreemptReplica(replica=name, gives_way_to=to, words=words))
            self.room.leaving.add(name)
            for node in one.nodes:
                self.room.booked.append(node)
                if self.future is not None:
                    self.future.spaces[node] = self.future.spaces[node].without(name)
                    self.future.booked.append(node)

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
                self._give_up(one, f"{one.outdated}; there is no room for both")
                self.room.leaving.add(one.replica.id)
                return True
        return False


def _why(found: Group, has: int, placed: int) -> str:
    """Return why one more replica is started, when `has` are there."""
    words = f"{found.asked}, {has} there"
    if placed < len(found.away):
        one = found.away[placed]
        words = f"{words}; takes the place of {one.replica.id}, lost with {one.where}"
    return words


def _waits(refusal: Refusal) -> bool:
    """Say whether there is room, and only a failed start is waited for."""
    return all(one.verdict.rule == FAILURES for one in refusal.candidates)
