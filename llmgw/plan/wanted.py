"""What is wanted of each profile against what is there: pure counting, before any placement."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmgw.model.catalog import Model, Profile
from llmgw.model.check import fingerprint
from llmgw.model.replica import Replica
from llmgw.plan.records import Desired
from llmgw.plan.returned import Worth, give_way
from llmgw.plan.standing import Nodes, Standing, least_useful_first, standing

Profiles = Mapping[tuple[str, str], tuple[Model, Profile]]


@dataclass(frozen=True, slots=True)
class Group:
    """The replicas of one profile, sorted by what becomes of them.

    Every replica of the profile is in exactly one of `good`, `old`, `away`, `leaving`, `gone`.
    """

    model: Model
    profile: Profile
    fingerprint: str
    wanted: int
    why: str
    """Why so many are wanted; empty: because the catalog says so."""
    good: tuple[Standing, ...]
    """As wanted, whether ready yet or not; those of lost nodes among them are waited for."""
    old: tuple[Standing, ...]
    """To be replaced by another, then stopped."""
    away: tuple[Standing, ...]
    """On nodes that are lost for so long that others take their places."""
    leaving: tuple[Standing, ...]
    gone: tuple[Standing, ...]
    hang: tuple[Standing, ...] = ()
    """Those in `leaving` that don't end, so that nobody waits for them."""
    due: int = 0
    """How many gave up their places for successors that are not there yet."""

    @property
    def key(self) -> tuple[str, str]:
        """Return its model and profile."""
        return (self.model.name, self.profile.name)

    @property
    def asked(self) -> str:
        """Return how many are wanted and why, for a sentence."""
        return f"{self.wanted} wanted" + (f" ({self.why})" if self.why else "")

    @property
    def present(self) -> int:
        """Return how many count towards what is wanted, as long as they serve."""
        return len(self.counting)

    @property
    def counting(self) -> tuple[Standing, ...]:
        """Return those that count towards what is wanted, as long as they serve."""
        return (*self.good, *(one for one in self.old if one.serves or one.waited_for))

    @property
    def missing(self) -> int:
        """Return how many have to be started whatever else happens."""
        return max(0, self.wanted - self.present)

    @property
    def to_replace(self) -> int:
        """Return how many may be started now to take the place of old ones: one at a time."""
        begun = self.underway or not any(not one.waited_for for one in self.old)
        return int(len(self.good) < self.wanted and not begun and not self.missing)

    @property
    def drained(self) -> bool:
        """Say whether one that serves is to leave a node that is drained: it is replaced first."""
        return any(one.serves and one.on_draining for one in self.old)

    @property
    def underway(self) -> bool:
        """Say whether one starts, or goes so that another can start."""
        starts = any(not one.ready and not one.on_lost for one in self.good)
        return starts or any(one.reachable and one not in self.hang for one in self.leaving)


def profiles(desired: Desired) -> Profiles:
    """Return every profile of the catalog by (model, profile)."""
    return {
        (entry.model.name, profile.name): (entry.model, profile)
        for entry in desired.models
        for profile in entry.model.profiles
    }


def group(
    model: Model,
    profile: Profile,
    replicas: Sequence[Replica],
    nodes: Nodes,
    *,
    wanted: int,
    why: str,
    hanging: Collection[str] = (),
    due: int = 0,
) -> Group:
    """Return a profile's replicas, sorted."""
    print_ = fingerprint(model, profile)
    all_ = [standing(replica, model, print_, nodes) for replica in replicas]
    there = [one for one in all_ if not one.leaving and not one.gone]
    return Group(
        model=model,
        profile=profile,
        fingerprint=print_,
        wanted=wanted,
        why=why,
        good=tuple(one for one in there if one.outdated is None and not one.replaced),
        old=tuple(one for one in there if one.outdated is not None),
        away=tuple(one for one in there if one.outdated is None and one.replaced),
        leaving=tuple(one for one in all_ if one.leaving and not one.gone),
        gone=tuple(one for one in all_ if one.gone),
        hang=tuple(one for one in all_ if one.leaving and one.replica.id in hanging),
        due=due,
    )


def stops(found: Group, nodes: Nodes, worth: Worth) -> Iterator[tuple[Standing, str]]:
    """Yield the replicas of a profile that are given up now, and why.

    Some of them may be out of reach; they are given up again when their node returns. One of
    several nodes can't go on without those that are lost: where another takes its place, the nodes
    that are there are freed (REC-10).

    Args:
        found: the profile's replicas.
        nodes: all nodes.
        worth: scores a replica's place.
    """
    surplus = len(found.good) - found.wanted
    if surplus > 0:
        back = _gives_way(found, nodes, worth)
        for one in least_useful_first(found.good, back)[:surplus]:
            yield one, _why_surplus(one, found, back)
    for one in found.old:
        if one.torn or not (one.ready or one.waited_for):
            yield one, one.outdated or ""
    for one in found.away:
        if one.torn:
            yield one, f"it is lost with {', '.join(one.lost)}, and another is to take its place"
    serving = [one for one in found.old if one.serves]
    kept = max(0, found.wanted - sum(one.serves for one in found.good))
    for one in least_useful_first(serving, ())[: max(0, len(serving) - kept)]:
        unwanted = _why_surplus(one, found, {}) if found.wanted == 0 else None
        yield one, unwanted or f"{one.outdated}; another serves in its place"


def _gives_way(found: Group, nodes: Nodes, worth: Worth) -> Mapping[str, str]:
    policy = found.model.disconnect.on_return
    return give_way(found.good, nodes.by_id, found.wanted, on_return=policy, worth=worth)


def _why_surplus(one: Standing, found: Group, back: Mapping[str, str]) -> str:
    if found.wanted == 0:
        return found.why or "no replica of it is wanted"
    return back.get(one.replica.id) or f"{found.asked}, {len(found.good)} there"
