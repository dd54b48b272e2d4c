"""`explain`: what placement says of every node for one more replica of a model."""

from llmgw.model.catalog import Model, Profile
from llmgw.model.replica import LEAVING
from llmgw.plan.backoff import held_back
from llmgw.plan.placement.place import judge
from llmgw.plan.placement.request import request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import Candidate, Desired, Observed


def explain(
    model: Model, profile: Profile, desired: Desired, observed: Observed, now: float
) -> tuple[Candidate, ...]:
    """Return every node with its verdict, and with scores and devices where it fits, by id.

    Args:
        model: the catalog's.
        profile: one of its profiles.
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds, on the clock of the failures in `observed`.
    """
    failures = (one for one in observed.failures if one.model == model.name)
    held = held_back(failures, now)
    wanted = request(
        model,
        profile,
        ordered=desired.settings.engines,
        held_back={**held.waiting, **held.passed_over},
    )
    leaving = {one.id for one in observed.replicas if one.state in LEAVING}
    room = Room(observed, leaving)
    return tuple(judge(wanted, room.spaces[name]) for name in sorted(room.spaces))
