"""Who gives way to a replica that is wanted and finds no place (REC-7).

*Eviction*: a replica with nothing to do goes. *Pre-emption*: one that serves goes, of a lower
priority only. Those go first that nobody misses: idle, and beyond the least that their model wants,
or of a model that a request starts again; then the lowest priorities. The smallest set that is
enough is taken: see `ways`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmgw.model.catalog import Profile
from llmgw.plan.records import Observed
from llmgw.plan.scaling import on_demand
from llmgw.plan.standing import Standing
from llmgw.plan.wanted import Group

IDLE = 60.0
"""Seconds for which nothing was asked of a model before its replicas count as idle."""

Key = tuple[str, str]
"""Model and profile."""

Cost = tuple[int, int, int, int]
"""How many that are missed go, the highest priority of those, how many of them have something to
do, and how many go in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A replica that may give way."""

    standing: Standing
    group: Group
    idle: bool
    """It has nothing to do."""
    missed: bool
    """Its model will want another in its place."""
    spare: int | None
    """How many of its profile may go at most; None: all."""

    @property
    def replica(self) -> str:
        """Return its id."""
        return self.standing.replica.id

    @property
    def key(self) -> Key:
        """Return its model and profile."""
        return (self.group.model.name, self.group.profile.name)

    @property
    def nodes(self) -> frozenset[str]:
        """Return where it is."""
        return frozenset(shard.node for shard in self.standing.replica.shards)


def least(profile: Profile) -> int:
    """Return how many replicas of a profile others of the same priority have to make room for."""
    return 1 if on_demand(profile) else profile.replicas


def candidates(
    found: Group,
    groups: Iterable[Group],
    observed: Observed,
    leaving: Iterable[str],
    *,
    lacks_least: bool,
) -> list[Candidate]:
    """Return who may give way to more replicas of a profile, those first that go first.

    Nobody gives way to more replicas than the least of a model of which nothing is asked.

    Args:
        found: the profile that lacks replicas.
        groups: all profiles.
        observed: the fleet at this moment.
        leaving: replicas that go already.
        lacks_least: it has not the least that it may have; idle ones of its own priority go too.
    """
    asked = asked_of(observed)
    short = lacks_least and not on_demand(found.profile)
    if not short and found.model.name not in asked:
        return []
    idle, gone = _idle(observed, asked), frozenset(leaving)
    return sorted(
        (
            candidate
            for group in groups
            if group.model.name != found.model.name
            for candidate in _of_group(group, found, idle, gone, equals=lacks_least)
        ),
        key=order,
    )


def outdated(found: Group, leaving: Iterable[str], but: Iterable[str]) -> list[Candidate]:
    """Return the replicas of a profile that may go so that one that is as wanted has their place.

    Never one that is outdated only because its node is draining: the place of its successor is on
    another node, and stopping it would make no room there.

    Args:
        found: the profile.
        leaving: replicas that go already.
        but: nodes on which they stay: a successor failed to start there, or one does not end there.
    """
    gone, kept = frozenset(leaving), frozenset(but)
    there = [
        Candidate(one, found, idle=False, missed=True, spare=None)
        for one in found.old
        if one.reachable and not one.on_draining and one.replica.id not in gone
    ]
    return sorted((one for one in there if not one.nodes & kept), key=order)


def _of_group(
    group: Group, found: Group, idle: frozenset[str], leaving: frozenset[str], *, equals: bool
) -> Iterable[Candidate]:
    if group.profile.priority > found.profile.priority:
        return  # an idle spare of it too: the lint would refuse the whole plan
    lower = group.profile.priority < found.profile.priority
    again = on_demand(group.profile)
    there = sum(one.replica.id not in leaving for one in (*group.good, *group.old))
    # One that is started to take another's place is no spare: only both together are too many.
    spare = min(there, group.wanted) - max(1, group.profile.replicas)
    for one in (*group.good, *group.old):
        if not one.reachable or one.replica.id in leaving:
            continue
        rests = one.ready and one.replica.id in idle
        missed = not rests or (spare <= 0 and not again)
        if lower or (equals and rests and (again or spare > 0)):
            most = None if lower or again else spare
            yield Candidate(one, group, idle=rests, missed=missed, spare=most)


def asked_of(observed: Observed) -> frozenset[str]:
    """Return the models of which something is asked, or was a moment ago."""
    return frozenset(
        one.model
        for one in observed.demands
        if one.queued or (one.idle_for is not None and one.idle_for < IDLE)
    )


def _idle(observed: Observed, asked: frozenset[str]) -> frozenset[str]:
    """Return the replicas that are known to have nothing to do, and had nothing for long."""
    nothing = {load.replica for load in observed.loads if load.in_flight == 0}
    return frozenset(
        one.id for one in observed.replicas if one.id in nothing and one.model not in asked
    )


def order(one: Candidate) -> tuple[bool, int, bool, bool, float, str]:
    """Return who goes first."""
    since = one.standing.replica.since
    newest = -since if since is not None else float("-inf")
    priority = one.group.profile.priority
    return (one.missed, priority, not one.idle, one.standing.ready, newest, one.replica)


def cost(chosen: Sequence[Candidate]) -> Cost:
    """Return what it costs that all of these go."""
    missed = [one for one in chosen if one.missed]
    highest = max((one.group.profile.priority for one in missed), default=0)
    return (len(missed), highest, sum(not one.idle for one in missed), len(chosen))
