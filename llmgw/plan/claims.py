"""What profiles lack, in the order in which it is met: see `filling`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from llmgw.plan.giveway import Key, least
from llmgw.plan.scaling import on_demand
from llmgw.plan.wanted import Group


@dataclass(frozen=True, slots=True)
class Claim:
    """A profile, and how many replicas of it are to have a place before the next claim is met."""

    found: Group
    target: int
    least: bool
    """They are no more than the least that it may have."""
    rests: bool = False
    """A request starts it, and none came lately: what is asked for or always runs is met before."""
    due: bool = False
    """They are no more than it had before some gave up their places for their successors: no equal
    gets those in between."""

    @property
    def key(self) -> Key:
        """Return whose it is."""
        return (self.found.model.name, self.found.profile.name)

    @property
    def order(self) -> tuple[int, bool, bool, bool]:
        """Return what is met first; of equals the first by name."""
        return (-self.found.profile.priority, not self.due, not self.least, self.rests)

    @property
    def all_there(self) -> bool:
        """Say whether nothing of its profile is missing once it is met."""
        return self.target == self.found.wanted and not self.due

    @property
    def rolls(self) -> bool:
        """Say whether an outdated replica is replaced with this claim, and not with its other one.

        One on a draining node is none of the least any more: without it the profile may lack that.
        """
        if self.due:
            return False
        lacks = len(self.found.good) < least_of(self.found)
        return self.least == (self.found.drained and lacks)


def claims(groups: Sequence[Group], asked: Collection[str]) -> list[Claim]:
    """Return all claims, in order.

    Args:
        groups: all profiles.
        asked: models of which something is asked.
    """
    found: list[Claim] = []
    for one in groups:
        rests = on_demand(one.profile) and one.model.name not in asked
        had = min(one.wanted, one.present + one.due)
        for target, due in ((had, True), (one.wanted, False)):
            if due <= bool(one.due):
                floor = min(target, least_of(one))
                found.append(Claim(one, floor, least=True, rests=rests, due=due))
                found.append(Claim(one, target, least=False, rests=rests, due=due))
    return sorted(found, key=lambda one: one.order)


def least_of(found: Group) -> int:
    """Return how many replicas a profile is to have before any equal has more than that."""
    return min(found.wanted, least(found.profile))
