"""Where a model that failed to start on some nodes may still be tried."""

from collections.abc import Mapping, Sequence

from llmgw.model.catalog import Model, Profile
from llmgw.model.replica import LEAVING
from llmgw.plan.backoff import ELSEWHERE_AFTER, RULE
from llmgw.plan.explain import of_each
from llmgw.plan.placement.kinds import passes
from llmgw.plan.placement.request import request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import (
    FITS,
    NEVER,
    Candidate,
    Desired,
    Observed,
    StartFailure,
    Verdict,
)
from llmgw.plan.weights_known import WeightsKnown


def judged(
    model: Model, desired: Desired, observed: Observed
) -> Mapping[str, tuple[Candidate, ...]]:
    """Return every node's verdict on one more replica, by profile; those that failed never fit.

    Args:
        model: the catalog's.
        desired: what the cluster is told.
        observed: the fleet at this moment.
    """
    tired = given_up(model.name, observed.failures)
    held = {one.node: Verdict(kind=NEVER, rule=RULE, words=one.words) for one in tired}
    leaving = {one.id for one in observed.replicas if one.state in LEAVING}
    room = Room(observed, leaving)
    known = WeightsKnown(observed.nodes)
    return {
        profile.name: _of(model, profile, desired, held, known, room) for profile in model.profiles
    }


def _of(
    model: Model,
    profile: Profile,
    desired: Desired,
    held: Mapping[str, Verdict],
    known: WeightsKnown,
    room: Room,
) -> tuple[Candidate, ...]:
    wanted = request(
        model,
        profile,
        ordered=desired.settings.engines,
        held_back=held,
        device_memory_bytes=known.least_on_device(model, profile),
    )
    return of_each(wanted, room)


def given_up(model: str, failures: Sequence[StartFailure]) -> list[StartFailure]:
    """Return the failures of a model after which another node is taken."""
    return [one for one in failures if one.model == model and one.count >= ELSEWHERE_AFTER]


def may_still_take(one: Candidate) -> bool:
    """Say whether a node may take a replica, now or once what it waits for is over.

    Not one that an operator takes out: what failed everywhere else is told, and not waited out.
    """
    return one.verdict.kind == FITS or passes(one.verdict)
