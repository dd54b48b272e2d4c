"""What is wanted of each profile against what is there: pure counting, before any placement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmgw.model.catalog import Model, Profile
from llmgw.model.check import fingerprint
from llmgw.model.node import Node
from llmgw.model.replica import Replica
from llmgw.plan.records import Desired
from llmgw.plan.standing import Standing, least_useful_first, standing, superseded

Profiles = Mapping[tuple[str, str], tuple[Model, Profile]]


@dataclass(frozen=True, slots=True)
class Group:
    """The replicas of one profile, sorted by what becomes of them.

    Every replica of the profile is in exactly one of `good`, `old`, `leaving`, `gone`.
    """

    model: Model
    profile: Profile
    fingerprint: str
    wanted: int
    good: tuple[Standing, ...]
    """As wanted, whether ready yet or not; those of lost nodes among them are waited for."""
    old: tuple[Standing, ...]
    """To be replaced by another, then stopped."""
    leaving: tuple[Standing, ...]
    gone: tuple[Standing, ...]

    @property
    def present(self) -> int:
        """Return how many count towards what is wanted, as long as they serve."""
        return len(self.good) + sum(one.serves for one in self.old)

    @property
    def missing(self) -> int:
        """Return how many have to be started whatever else happens."""
        return max(0, self.wanted - self.present)

    @property
    def to_replace(self) -> int:
        """Return how many may be started now to take the place of old ones: one at a time."""
        underway = any(not one.ready and not one.on_lost for one in self.good)
        underway = underway or any(one.reachable for one in self.leaving)
        return int(len(self.good) < self.wanted and not underway and not self.missing)


def profiles(desired: Desired) -> Profiles:
    """Return every profile of the catalog by (model, profile)."""
    return {
        (entry.model.name, profile.name): (entry.model, profile)
        for entry in desired.models
        for profile in entry.model.profiles
    }


def group(
    model: Model, profile: Profile, replicas: Sequence[Replica], nodes: Mapping[str, Node],
    *, stopped: bool,
) -> Group:  # fmt: skip
    """Return a profile's replicas, sorted; with `stopped` none is wanted."""
    print_ = fingerprint(model, profile)
    all_ = [standing(replica, model, print_, nodes) for replica in replicas]
    there = [one for one in all_ if not one.leaving and not one.gone]
    return Group(
        model=model,
        profile=profile,
        fingerprint=print_,
        wanted=0 if stopped else profile.replicas,
        good=tuple(one for one in there if one.outdated is None),
        old=tuple(one for one in there if one.outdated is not None),
        leaving=tuple(one for one in all_ if one.leaving and not one.gone),
        gone=tuple(one for one in all_ if one.gone),
    )


def stops(
    found: Group, nodes: Mapping[str, Node], *, stopped: bool
) -> Iterator[tuple[Standing, str]]:
    """Yield the replicas of a profile that are given up now, and why.

    Some of them may be out of reach; they are given up again when their node returns.
    """
    surplus = len(found.good) - found.wanted
    if surplus > 0:
        for one in least_useful_first(found.good, nodes, found.wanted)[:surplus]:
            yield one, _why_surplus(one, found, nodes, stopped=stopped)
    for one in found.old:
        if not one.ready:
            yield one, one.outdated or ""
    serving = [one for one in found.old if one.serves]
    kept = max(0, found.wanted - sum(one.serves for one in found.good))
    for one in least_useful_first(serving, nodes, found.wanted)[: max(0, len(serving) - kept)]:
        if found.wanted == 0:
            yield one, _why_surplus(one, found, nodes, stopped=stopped)
        else:
            yield one, f"{one.outdated}; another serves in its place"


def _why_surplus(one: Standing, found: Group, nodes: Mapping[str, Node], *, stopped: bool) -> str:
    if stopped:
        return "the cluster is stopped"
    if found.wanted == 0:
        return "no replica of it is wanted"
    if superseded(one, found.good, nodes, found.wanted):
        return f"another took its place while {one.where} was away"
    return f"{found.wanted} wanted, {len(found.good)} there"
