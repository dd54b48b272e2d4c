"""`reconcile`: what has to be started and stopped so that what runs is what is wanted (REC-1).

Pure and idempotent: the same fleet gives the same plan, and a fleet on which the plan was carried
out gives an empty one. What can't be done now is not remembered: the next pass finds it again.
Replicas of a lost node are waited for: nothing takes their place until they are outdated, the node
is drained or removed, or their model's policy says so. One that serves is given up in two steps: it
leaves the routes, and is stopped by a later plan when what it has begun is done; until then it may
be taken back. What goes is decided here, what is missing in `filling`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from llmgw.model.catalog import Model, Profile
from llmgw.model.node import READY
from llmgw.model.replica import DRAINING, LEAVING, Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.model.shard import READY as SHARD_READY
from llmgw.plan.blind import is_blind, nothing_too_many, refusals
from llmgw.plan.drain import hanging, may_stop
from llmgw.plan.filling import fill
from llmgw.plan.giveway import Key
from llmgw.plan.imagine import given_up
from llmgw.plan.placement.request import request
from llmgw.plan.placement.room import Room
from llmgw.plan.placement.scores import total
from llmgw.plan.places import Places
from llmgw.plan.records import (
    Desired,
    DrainReplica,
    EvictReplica,
    Observed,
    Plan,
    PreemptReplica,
    Step,
    StopReplica,
)
from llmgw.plan.returned import Worth
from llmgw.plan.sentence import sentence, waits_to_settle
from llmgw.plan.standing import Nodes, Standing, live_shards
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
    if done.places.unsettled:
        done = done.settled()
    refused = tuple(done.places.refusals)
    return Plan(
        number=number,
        parent=parent,
        steps=done.steps,
        refusals=refused,
        sentence=sentence(desired, observed, done.steps, refused),
    )


Given = dict[EvictReplica | PreemptReplica | DrainReplica, Key]
"""Who goes so that another has a place, and which profile is to have it."""

SETTLING = 8
"""How often a pass in which some give way is decided anew, at most."""


@dataclass
class _Pass:
    """One pass under way: gives up what is too much first, then places what is missing."""

    desired: Desired
    observed: Observed
    now: float
    new_id: Callable[[str], str]
    denied: Collection[Key] = ()
    """Profiles that nobody goes for."""
    stops: list[StopReplica] = field(default_factory=list)
    drains: list[DrainReplica] = field(default_factory=list)

    def run(self) -> None:
        observed = self.observed
        lost = observed.mass_loss
        self.nodes = Nodes(
            by_id={room.node.id: room.node for room in observed.nodes},
            lost_for={r.node.id: r.lost_for for r in observed.nodes if r.lost_for is not None},
            lost_together=lost.nodes if lost is not None else (),
        )
        self.told = {one.replica: frozenset(one.told_shards) for one in observed.drains}
        self.hanging = hanging(observed, self.desired.settings.reconcile.drain_limit)
        self.due = Counter(observed.successors)
        self.wants = {(one.model, one.profile): one for one in self.desired.wants}
        self._stop_drained()
        self.groups = self._groups()
        before = Room(observed)
        for found in self.groups:
            worth = self._worth(found, before)
            for one, words in stops(found, self.nodes, worth):
                self._give_up(one, words)
        self._stop_rest()
        self.places = Places(
            self.desired, observed, self.now, self._leaving(), self.new_id, self.denied
        )
        if lost is not None and lost.blind:
            self.places.refusals += refusals(self.groups, lost)
            return  # what is missing may run where nobody can be asked
        fill(self.groups, self.places, partial(self._give_up, for_successor=True))

    def settled(self) -> "_Pass":
        """Return the pass after which the next plan finds nothing else to do.

        Who gives way is found claim by claim: the last to go may free enough for what the first was
        for, or for a claim that waits or was refused before. So all is decided anew, as the next
        plan would, with those who give way on their way out: who is not needed stays, and nothing
        is started that would only have to go again. Where that goes back and forth, as it can when
        several nodes have to be cleared at once, nobody goes for what it is about.
        """
        given, denied, drains = self.gives_way, frozenset[Key](), self._drained
        for turn in range(2 * SETTLING):
            then = self._next(given, drains, denied)
            back = {step.replica for step in then.places.keeps}
            drained = [step for step in drains if step.replica not in back]
            stay = {step: to for step, to in given.items() if step.replica not in back}
            if stay != given or then.gives_way or drained != drains:
                anew = stay | then.gives_way
                if turn >= SETTLING:
                    denied |= {to for step, to in (given | anew).items()
                               if (step in given) != (step in anew)}  # fmt: skip
                    anew = {step: to for step, to in anew.items() if to not in denied}
                given, drains = anew, drained
            elif (less := self._needed(given, drains, then, denied)) == given:
                if (
                    given == self.gives_way
                    and drains == self._drained
                    and self.starts == then.starts
                ):
                    return self
                then.places.yields += [one for one in given if not isinstance(one, DrainReplica)]
                then.drains += [*drains, *(one for one in given if isinstance(one, DrainReplica))]
                return then
            else:
                denied |= {to for step, to in given.items() if step not in less}
                given = less
        return self._letting_nobody_go(denied | {*self.gives_way.values(), *given.values()})

    def _letting_nobody_go(self, denied: Collection[Key]) -> "_Pass":
        """Return the pass in which nobody goes for some profiles."""
        done = _Pass(self.desired, self.observed, self.now, self.new_id, denied=denied)
        done.run()
        return done

    @property
    def starts(self) -> Sequence[tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]]]:
        """Return what is started and where, whatever it is called."""
        return [
            (step.model, step.profile, tuple((one.node, one.spec.devices) for one in step.shards))
            for step in self.places.starts
        ]

    @property
    def gives_way(self) -> Given:
        """Return those that go for others by this plan, and the profile that they go for."""
        places, rolled = self.places, self.places.rolled
        own = {one: rolled[one.replica] for one in self.drains if one.replica in rolled}
        return {one: one.gives_way_to for one in places.yields} | own

    @property
    def _drained(self) -> Sequence[DrainReplica]:
        """Return what is given up for nobody: it goes whoever else does."""
        places = self.places
        other = places.stays | places.rolled.keys()
        return [one for one in self.drains if one.replica not in other]

    def _next(
        self, given: Given, drains: Sequence[DrainReplica], denied: Collection[Key]
    ) -> "_Pass":
        """Return the pass that comes next when only these were given up."""
        gone = [step.replica for step in (*given, *drains)]
        rolled = [to for step, to in given.items() if isinstance(step, DrainReplica)]
        observed = given_up(self.observed, gone, rolled)
        then = _Pass(self.desired, observed, self.now, self.new_id, denied=denied)
        then.run()
        return then

    def _needed(
        self,
        given: Given,
        drains: Sequence[DrainReplica],
        then: "_Pass",
        denied: Collection[Key],
    ) -> Given:
        """Return those without whom what they go for has fewer places.

        Where a higher claim gets the room that somebody else's leaving makes, nobody goes for that.
        """
        claims, before = set(given.values()), then.places.found
        few = len(given) <= SETTLING
        for to in sorted(claims if few else claims & then.places.refused):
            mine = [step for step, other in given.items() if other == to]
            for gone in (mine, *([one] for one in mine if few)):
                less = {step: other for step, other in given.items() if step not in gone}
                found = self._next(less, drains, claims | set(denied)).places.found
                if all(found[one] >= before[one] for one in claims):
                    return less
        return given

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return all that is done; what goes on after all is not stopped."""
        given = self.places
        kept = {step.replica for step in given.keeps} | given.stays
        stops = (step for step in self.stops if step.replica not in kept)
        drains = (step for step in self.drains if step.replica not in kept)
        return (*given.keeps, *stops, *drains, *given.yields, *given.starts)

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
        found = group(
            model,
            profile,
            replicas,
            self.nodes,
            wanted=wanted,
            why=why,
            hanging=self.hanging,
            due=self.due[key],
        )
        goes_on = is_blind(self.observed) and not self._stopped
        return nothing_too_many(found) if goes_on else found

    def _give_up(self, one: Standing, words: str, *, for_successor: bool = False) -> None:
        """Let a replica finish what it serves; stop at once what serves nothing."""
        if one.told and one.ready:
            self._drain(one.replica, words, for_successor=for_successor)
        elif one.told:
            self._stop_shards(one.replica, words)

    def _drain(self, replica: Replica, words: str, *, for_successor: bool = False) -> None:
        nodes = [self.nodes.by_id.get(shard.node) for shard in replica.shards]
        if any(node is not None and node.liveness == READY for node in nodes):
            step = DrainReplica(replica=replica.id, words=words, for_successor=for_successor)
            self.drains.append(step)

    def _stop_drained(self) -> None:
        """Stop what was given up and has finished, or had its time."""
        loads = {load.replica: load for load in self.observed.loads}
        by_id = {replica.id: replica for replica in self.observed.replicas}
        limit = self.desired.settings.reconcile.drain_limit
        for drain in self.observed.drains:
            replica = by_id.get(drain.replica)
            if replica is None or replica.state != DRAINING:
                continue
            why = may_stop(drain, loads.get(drain.replica), limit)
            if why is not None:
                self._stop_shards(replica, f"{drain.words}; {why}")
            elif drain.told_before:
                self._stop_shards(replica, drain.words)

    def _stop_rest(self) -> None:
        """Stop what is left of replicas of which a shard failed (REC-10)."""
        for replica in sorted(self.observed.replicas, key=lambda one: one.id):
            if replica.state in {FAILED, STOPPED} and replica.model is not None:
                words = f"a shard of it {replica.state}: {replica.reason or 'no reason said'}"
                self._stop_shards(replica, words)

    def _stop_shards(self, replica: Replica, words: str) -> None:
        """Stop the shards that may run on nodes that can be told; once a plan.

        Not those that their nodes were told to stop, and have the time to.
        """
        if any(step.replica == replica.id for step in self.stops):
            return
        told = self.told.get(replica.id, frozenset())
        shards = tuple(
            (shard.node, shard.rank)
            for shard in live_shards(replica)
            if (node := self.nodes.by_id.get(shard.node)) is not None
            and node.liveness == READY
            and (shard.node, shard.rank) not in told
        )
        if shards:
            self.stops.append(StopReplica(replica=replica.id, shards=shards, words=words))

    def _leaving(self) -> set[str]:
        going = {one.id for one in self.observed.replicas if one.state in LEAVING}
        going |= {one.replica for one in self.stops} | {one.replica for one in self.drains}
        going |= {one.replica for one in self.observed.drains if one.told_before}
        return going - self.hanging
