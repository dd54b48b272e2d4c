"""Gives what is missing its places: now, once others have gone, or not at all, and says why.

Claims are met in order: the highest priority first; of one priority the least of every profile
before what load asks for beyond it, and what is asked for before what only rests, so that what gave
way does not take its place back; of those what is missing before what is outdated. A
claim is met as a whole before the next one is looked at. What can't be started now keeps the place
that it waits for, so that nobody of a lower priority is started there to go again at once:

- where others are leaving, or are asked to (REC-7);
- where it failed to start once or twice, for as long as it waits (see `backoff`).

What finds no place even so leaves all of them to the claims that follow.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

import msgspec

from llmgw.plan.claims import Claim, claims
from llmgw.plan.giveway import Key, asked_of, candidates, outdated
from llmgw.plan.placement.filters import fits
from llmgw.plan.placement.place import Placement, find, placed_on, refuse
from llmgw.plan.placement.rated import rated
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room
from llmgw.plan.places import Places
from llmgw.plan.records import NEVER, Candidate, Refusal, Verdict
from llmgw.plan.standing import Standing, least_useful_first
from llmgw.plan.takeback import has_its_place, returning
from llmgw.plan.wanted import Group
from llmgw.plan.ways import Ways

GiveUp = Callable[[Standing, str], None]
"""Lets a replica go, and says why."""


def fill(groups: Sequence[Group], places: Places, give_up: GiveUp) -> None:
    """Meet all claims; before those of one rank, let go on what still serves and is wanted again.

    Args:
        groups: all profiles.
        places: what this plan gives out.
        give_up: lets an outdated replica go whose place its successor needs.
    """
    refused: set[Key] = set()
    asked = asked_of(places.observed)
    for _, alike in groupby(claims(groups, asked), key=lambda one: one.order):
        rank = list(alike)
        for claim in rank:
            take_back(claim, places)
        for claim in rank:
            if claim.key not in refused and not meet(claim, groups, places, give_up):
                refused.add(claim.key)
                places.unmet.add(claim.key)
        for claim in rank:
            if claim.key not in refused and may_roll(claim, places):
                _Meeting(claim, groups, places, give_up).roll()
        for claim in rank:
            if claim.key not in refused and claim.all_there and claim.found.drained:
                _Meeting(claim, groups, places, give_up).keep_for_drained()


def take_back(claim: Claim, places: Places) -> None:
    """Let as many go on as are missing and were given up, where nobody else gets their places.

    Those first that only this plan gave up.
    """
    for one in places.too_many(claim.found) if _missing(claim, places) else ():
        if _missing(claim, places) and has_its_place(one.replica, places.future):
            places.stay(one)
    for one in returning(claim.found, places.observed) if _missing(claim, places) else ():
        going = one.replica.id in places.room.leaving
        if going and _missing(claim, places) and has_its_place(one.replica, places.future):
            words = f"{_asked(claim, places)}; it still serves, and was not told to stop"
            places.go_on(claim.found, one, words)
            places.claimed[claim.key] += 1


def meet(claim: Claim, groups: Sequence[Group], places: Places, give_up: GiveUp) -> bool:
    """Meet one claim; return whether what follows of the same profile is to be looked at."""
    if _missing(claim, places):
        take_back(claim, places)  # others gave way in this plan
    missing = _missing(claim, places)
    return not missing or _Meeting(claim, groups, places, give_up).fill(missing)


def may_roll(claim: Claim, places: Places) -> bool:
    """Say whether an outdated replica is replaced now: nothing of its profile starts or goes."""
    goes = any(one.replica.id in places.room.leaving for one in claim.found.old)
    begun = _missing(claim, places) or places.claimed[claim.key] or goes
    return bool(claim.found.to_replace and claim.rolls and not begun)


def _missing(claim: Claim, places: Places) -> int:
    has = places.has(claim.found) + places.claimed[claim.key]
    return max(0, claim.target - has)


def _asked(claim: Claim, places: Places) -> str:
    has = places.has(claim.found) + places.claimed[claim.key]
    return f"{claim.found.asked}, {has} there"


class _Meeting:
    """One claim while it is met."""

    def __init__(
        self, claim: Claim, groups: Sequence[Group], places: Places, give_up: GiveUp
    ) -> None:
        self._claim = claim
        self._found = claim.found
        self._key = claim.key
        self._groups = groups
        self._places = places
        self._give_up = give_up
        self._wanted = places.request(self._found)
        self._held = places.held(self._found)
        held = self._held
        self._past = replace(self._wanted, held_back=held.passed_over)
        self._again = replace(self._wanted, held_back=held.resting)
        self._more = 0
        """How many are to be placed after the next one."""
        self._full = False
        """Nothing more of it fits now."""
        self._waits: Refusal | None = None
        """Of what waits after a failed start."""
        self._later: list[Placement] = []
        """What waits until others have gone."""
        self._ways: Ways | None = None
        self._cleared = 0
        """How many others gave way."""
        self._patient = False
        """Somebody could give way, and does not because it fails."""

    def fill(self, missing: int) -> bool:
        """Give as many replicas their places; return whether all have one."""
        for more in reversed(range(missing)):
            self._more = more
            if not self._met():
                break
            self._places.claimed[self._key] += 1
        else:
            missing = 0
        self._say(for_good=missing > 0)
        self._look_for_more()
        return not missing

    def roll(self) -> None:
        """Start one that takes the place of an outdated one, or make room for it.

        Others give way to the successor of one on a draining node: that goes on until it serves,
        and nothing of its own can make room. One that the catalog outdated gives its own place up.
        """
        if self._start_or_wait():
            self._say(for_good=False)
        elif self._found.drained:
            self._say(for_good=not self._reserve())
            self._look_for_more()
        elif self._make_room():
            self._book_later()
        else:
            self._say(for_good=True)

    def keep_for_drained(self) -> None:
        """Keep the places of those that leave drained nodes one after the other, as far as any fit.

        A lower claim that started there would have to go again when their turn comes.
        """
        for _ in range(self._places.to_follow(self._found)):
            placement = self._find(self._places.room)
            if placement is None:
                return
            self._places.keep(self._wanted, placement)
            self._places.keep_later(self._wanted, placement)

    def _look_for_more(self) -> None:
        """Note when those that give way may leave room for more than they give way to.

        Of several nodes others may be best once they have gone.
        """
        several = self._cleared and self._wanted.profile.nodes > 1
        if several or (self._cleared > 1 and self._find(self._places.future) is not None):
            self._places.unsettled = True

    def _met(self) -> bool:
        """Give one its place: past the nodes on which it failed too often, then on them too."""
        if self._start_or_wait(past=bool(self._held.passed_over)):
            return True
        if self._held.passed_over and self._reserve(past=True):
            return True
        return self._start() or self._reserve()

    def _start_or_wait(self, *, past: bool = False) -> bool:
        return self._wait() or self._start(past=past)

    def _wait(self) -> bool:
        """Keep a place where it failed to start a moment ago and fits: the next try is there.

        Which of these nodes it is does not depend on scores: the next plan finds the same.
        """
        room, waiting = self._places.room, self._held.waiting
        there = [n for n in sorted(waiting.keys() & room.spaces.keys())
                 if fits(self._wanted, room.spaces[n])]  # fmt: skip
        if not there:
            return False
        kept = self._kept_on(there)
        if kept is None:
            return False
        self._places.keep(self._wanted, kept)
        self._places.keep_later(self._wanted, kept)
        self._waits = Refusal(
            model=self._key[0],
            profile=self._key[1],
            candidates=tuple(Candidate(node=name, verdict=waiting[name]) for name in there),
            words=waiting[there[0]].words,
        )
        return True

    def _kept_on(self, nodes: Sequence[str]) -> Placement | None:
        """Return a place on the first of some nodes: of several nodes one that has it too."""
        room = self._places.room
        if self._wanted.profile.nodes == 1:
            return placed_on(self._wanted, room.spaces[nodes[0]])
        found = (find(replace(self._wanted, among=node), room) for node in nodes)
        return next((one for one in found if one is not None), None)

    def _start(self, *, past: bool = False) -> bool:
        placement = None if self._full else self._find(self._places.room, past=past)
        self._full = placement is None and not past
        if placement is not None:
            self._places.start(self._found, self._wanted, placement, self._why())
        return placement is not None

    def _reserve(self, *, past: bool = False) -> bool:
        """Find a place where others go already, or are asked to; keep it."""
        going = self._places.room.leaving
        placement = self._find(self._places.future, past=past) if going else None
        if placement is None:
            made = self._make_way(past=past)
            if made or past or self._found.underway:
                return made
            return self._make_room()
        self._keep_later(placement)
        return True

    def _make_way(self, *, past: bool) -> bool:
        """Let others give way; never while many nodes are lost, nor to what fails (`backoff`)."""
        held, ways = self._held, self._asked_ways()
        if ways is None or self._key in self._places.denied:
            return False
        self._patient = bool(held.patience)
        if held.waiting or held.asks_nobody:
            return False
        way = ways.find(held.passed_over if past else held.spared)
        if way is None:
            return False
        ways.take(way)
        self._cleared += len(way.gives_way)
        self._places.give_way(self._found, way)
        self._keep_later(way.placement)
        return True

    def _asked_ways(self) -> Ways | None:
        """Return the ways to make room; None where nobody may give way."""
        if self._ways is None and self._places.observed.mass_loss is None:
            there = candidates(
                self._found,
                self._groups,
                self._places.observed,
                self._places.room.leaving,
                lacks_least=self._claim.least,
            )
            never = self._never() if there else frozenset()
            if there := [one for one in there if not one.nodes <= never]:
                self._ways = Ways(self._wanted, there, self._places.future)
        return self._ways

    def _make_room(self) -> bool:
        """Let as few outdated ones go as make room for one successor, where only that helps."""
        leaving, held = self._places.room.leaving, self._held
        failed = {**held.waiting, **held.spared}  # as for anybody else who would go
        hang = {shard.node for one in self._found.hang for shard in one.replica.shards}
        there = outdated(self._found, leaving, failed.keys() | hang)
        goes = any(one.replica.id in leaving for one in self._found.old)
        if not there or goes or self._key in self._places.denied:
            return False
        ways = Ways(self._wanted, there, self._places.future)
        way = ways.find(failed)
        if way is None:
            return False
        for one in way.gives_way:
            self._give_up(one.standing, f"{one.standing.outdated}; there is no room for both")
        ways.take(way)
        self._places.roll(self._found, way)
        self._keep_later(way.placement)
        return True

    def _keep_later(self, placement: Placement) -> None:
        self._places.keep_later(self._wanted, placement)
        self._places.unmet.add(self._key)
        self._later.append(placement)

    def _book_later(self) -> None:
        while self._later:
            self._places.keep(self._wanted, self._later.pop())

    def _say(self, *, for_good: bool) -> None:
        """Say what is not started and why.

        While all only wait, the words are those of the room without the places kept for them.
        """
        if for_good:
            self._places.refused.add(self._key)
            self._places.unmet.add(self._key)
            self._book_later()
        if for_good or self._later:
            refusal = refuse(self._again, self._places.room)
            if for_good and self._patient:
                words = f"{refusal.words}; {self._held.patience}"
                refusal = msgspec.structs.replace(refusal, words=words)
            self._places.refuse(refusal)
        elif self._waits is not None:
            self._places.refuse(self._waits)
        self._book_later()

    def _find(self, room: Room, *, past: bool = False) -> Placement | None:
        """Place past the nodes that failed too often; on them only when nothing else fits."""
        found = find(self._of_several(self._past), room)
        if found is None and not past and len(self._held.resting) < len(self._held.passed_over):
            found = find(self._of_several(self._again), room)
        return found

    def _of_several(self, wanted: Request) -> Request:
        """Return a request that leaves room for the groups of those that follow."""
        return replace(wanted, more=self._more) if wanted.profile.nodes > 1 else wanted

    def _never(self) -> frozenset[str]:
        """Return the nodes on which nobody's leaving helps."""
        found = rated(self._wanted, self._places.future).items()
        return frozenset(n for n, one in found if isinstance(one, Verdict) and one.kind == NEVER)

    def _why(self) -> str:
        """Return why one more replica is started."""
        if (old := self._replaced()) is not None:
            asked = self._found.asked
            return f"{asked}; takes the place of {old.replica.id} on {old.where}: {old.outdated}"
        words, claimed = _asked(self._claim, self._places), self._places.claimed[self._key]
        if claimed < len(self._found.away):
            one = self._found.away[claimed]
            lost = ", ".join(one.lost)
            words = f"{words}; takes the place of {one.replica.id}, lost with {lost}"
        return words

    def _replaced(self) -> Standing | None:
        """Return the outdated one that goes when the next one serves; None where one is missing."""
        if _missing(self._claim, self._places):
            return None
        serving = [one for one in self._found.old if one.serves]
        return next(iter(least_useful_first(serving, ())), None)
