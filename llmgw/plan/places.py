"""What one plan gives out: who starts where, who goes for whom, and what is kept for later."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from llmgw.plan.backoff import HeldBack, held_back
from llmgw.plan.giveway import Key
from llmgw.plan.placement.place import Placement, book
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import (
    Desired,
    EvictReplica,
    KeepReplica,
    Observed,
    PreemptReplica,
    Refusal,
    StartReplica,
)
from llmgw.plan.standing import Standing
from llmgw.plan.start import start
from llmgw.plan.takeback import hold
from llmgw.plan.wanted import Group
from llmgw.plan.ways import Way, after
from llmgw.plan.weights_known import WeightsKnown


class Places:
    """The rooms of one pass, now and once everything that goes has gone, and its steps so far.

    Invariant: what is given out is held in both rooms; what waits for others to go is held in the
    later one from the moment on at which it is found, in the one of now from `keep` on.

    Args:
        leaving: replicas that go already.
        new_id: makes a replica's id from its model's name; asked again when one is taken.
        denied: profiles that nobody goes for in this plan.
    """

    def __init__(
        self,
        desired: Desired,
        observed: Observed,
        now: float,
        leaving: Iterable[str],
        new_id: Callable[[str], str],
        denied: Collection[Key] = (),
    ) -> None:
        self.denied = denied
        self.desired = desired
        self.observed = observed
        self.room = Room(observed, leaving)
        self.claimed: Counter[Key] = Counter()
        """How many replicas of each profile have a place by this plan, whatever they wait for."""
        self.keeps: list[KeepReplica] = []
        self.stays: set[str] = set()
        """Those that this plan gave up as too many before another of their profile gave way."""
        self.yields: list[EvictReplica | PreemptReplica] = []
        self.starts: list[StartReplica] = []
        self.refusals: list[Refusal] = []
        self.rolled: dict[str, Key] = {}
        """Outdated ones that go so that successors have their places, and of which profile."""
        self.found: Counter[Key] = Counter()
        """How many replicas of each profile have a place by this plan, successors among them."""
        self.unmet: set[Key] = set()
        """Profiles of which a replica waits for others to go, or was refused."""
        self.refused: set[Key] = set()
        """Profiles of which a replica was refused."""
        self.unsettled = False
        """What gives way frees room for others than it gives way to, or more than is needed."""
        self._now = now
        self._new_id = new_id
        self._ids = {replica.id for replica in observed.replicas}
        self._given_up = frozenset(self.room.leaving)
        self._weights = WeightsKnown(observed.nodes)
        self._future: Room | None = None

    @property
    def future(self) -> Room:
        """Return the room as it is once everything that goes has gone."""
        if self._future is None:
            self._future = after(self.room, self.room.leaving)
        return self._future

    def has(self, found: Group) -> int:
        """Return how many replicas of a profile count, less those that go by this plan.

        One that goes so that its successor has its place counts until that serves.
        """
        gone = {step.replica for step in self.yields} | (self._given_up - self.stays)
        return sum(one.replica.id not in gone for one in found.counting)

    def to_follow(self, found: Group) -> int:
        """Return how many that serve on drained nodes have no successor by this plan or before."""
        leaving = self.room.leaving
        on_drained = sum(one.serves and one.on_draining and one.replica.id not in leaving
                         for one in found.old)  # fmt: skip
        good = sum(one.replica.id not in leaving for one in found.good)
        return max(0, min(on_drained, found.wanted - good - self.found[found.key]))

    def too_many(self, found: Group) -> list[Standing]:
        """Return the replicas as wanted that this plan gave up, and that may stay nevertheless."""
        gone = (self._given_up - self.stays) & self.room.leaving
        return [one for one in found.good if one.replica.id in gone]

    def request(self, found: Group) -> Request:
        """Return the request for one more replica of a profile."""
        return request(
            found.model,
            found.profile,
            ordered=self.desired.settings.engines,
            device_memory_bytes=self._weights.least_on_device(found.model, found.profile),
        )

    def held(self, found: Group) -> HeldBack:
        """Return what a model's failed starts mean now."""
        failures = (one for one in self.observed.failures if one.model == found.model.name)
        return held_back(failures, self._now)

    def start(self, found: Group, wanted: Request, placement: Placement, why: str) -> None:
        """Start a replica."""
        replica = self._new_id(found.model.name)
        while replica in self._ids:
            replica = self._new_id(found.model.name)
        self._ids.add(replica)
        self.found[found.key] += 1
        book(replica, wanted, placement, self.room)
        if self._future is not None:
            book(replica, wanted, placement, self._future)
        scores = ", ".join(f"{rule} {score}" for rule, score in placement.scores.items())
        nodes = ", ".join(seat.node for seat in placement.seats)
        words = f"{why}; {nodes} scores best ({scores})"
        self.starts.append(start(replica, wanted, found.fingerprint, placement, words))

    def refuse(self, refusal: Refusal) -> None:
        """Say of a profile why a replica of it is not started: once, as it was said first.

        What is found of it later is about the room that is left beside those that wait.
        """
        if all((one.model, one.profile) != (refusal.model, refusal.profile)
               for one in self.refusals):  # fmt: skip
            self.refusals.append(refusal)

    def keep(self, wanted: Request, placement: Placement) -> None:
        """Keep a place from now on for a replica that waits."""
        book(_waiting(wanted), wanted, placement, self.room, waits=True)

    def keep_later(self, wanted: Request, placement: Placement) -> None:
        """Keep a place from the moment on at which everything that goes has gone."""
        self.found[wanted.model.name, wanted.profile.name] += 1
        if self._future is not None:
            book(_waiting(wanted), wanted, placement, self._future, waits=True)

    def go_on(self, found: Group, one: Standing, words: str) -> None:
        """Let a replica that was given up go on."""
        self.found[found.key] += 1
        self._leave_its_place(one)
        self.keeps.append(KeepReplica(replica=one.replica.id, words=words))

    def stay(self, one: Standing) -> None:
        """Let a replica stay that this plan gave up."""
        self._leave_its_place(one)
        self.stays.add(one.replica.id)

    def _leave_its_place(self, one: Standing) -> None:
        """Leave a replica the place that it has."""
        hold(one.replica, self.future)
        self.room.leaving.discard(one.replica.id)
        self.room.booked += [shard.node for shard in one.replica.shards]

    def roll(self, found: Group, way: Way) -> None:
        """Note that outdated ones of a profile go so that a successor has their place.

        From then on the profile lacks them, and others may have to give way to it.
        """
        to = found.key
        self.unsettled = True
        self.rolled |= dict.fromkeys((one.replica for one in way.gives_way), to)
        self._let_go(way, to)

    def _let_go(self, way: Way, to: Key) -> None:
        """Note that replicas go; their nodes are looked at again."""
        self.unsettled |= not self.unmet <= {to}
        for one in way.gives_way:
            self.room.leaving.add(one.replica)
            self.room.booked += sorted(one.nodes & self.room.spaces.keys())

    def give_way(self, found: Group, way: Way) -> None:
        """Evict and pre-empt for a profile."""
        to = found.key
        above = f"{found.model.name} (priority {found.profile.priority})"
        for one in way.gives_way:
            name, priority = one.replica, one.group.profile.priority
            if one.idle:
                words = f"it has nothing to do, and {above} can't be placed otherwise"
                self.yields.append(EvictReplica(replica=name, gives_way_to=to, words=words))
            else:
                words = f"its priority is {priority}, and {above} can't be placed otherwise"
                self.yields.append(PreemptReplica(replica=name, gives_way_to=to, words=words))
        self._let_go(way, to)


def _waiting(wanted: Request) -> str:
    """Return what holds a place for a replica that has no id yet."""
    return f"what {wanted.model.name} waits for"
