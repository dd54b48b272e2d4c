"""What is decided while it can't be known what runs: in a blind mass loss (LINK-6a).

Some of the nodes that are lost were not heard since this control plane began: what is missing may
run there, and what seems too much may be all that is left. So what serves goes on, nothing is
placed, and what is missing is said. What is outdated, drained or stopped by a person goes as ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from llmgw.plan.records import NOT_NOW, Candidate, Desired, MassLoss, Observed, Refusal, Verdict
from llmgw.plan.scaling import (
    Key,
    Scale,
    at_request,
    begins_as,
    may_run,
    on_demand,
    running,
    scales,
)
from llmgw.plan.wanted import Group
from llmgw.plan.words import some

RULE = "mass-loss"


def is_blind(observed: Observed) -> bool:
    """Say whether some may run what this control plane never heard of."""
    return observed.mass_loss is not None and observed.mass_loss.blind


def as_it_runs(
    before: Mapping[Key, Scale], desired: Desired, observed: Observed, now: float
) -> dict[Key, Scale]:
    """Return how many replicas are wanted of each profile that scales: what runs, unless known.

    Not to be remembered: once all are heard, scaling begins with all that runs.

    Args:
        before: what scaling found before, under the same leader.
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds.
    """
    waited_for = {demand.model for demand in observed.demands if demand.queued}
    found = dict(before)
    for entry in desired.models:
        name, there = entry.model.name, running(observed, entry.model.name)
        asked = None if there or name not in waited_for else next(iter(may_run(entry.model)), None)
        for profile in filter(scales, entry.model.profiles):
            key = (name, profile.name)
            own = [one for one in there if one.profile == profile.name]
            scale = found.get(key) or begins_as(entry, profile, own, observed, now, new=False)
            if profile is asked and on_demand(profile) and not scale.wanted:
                scale = replace(scale, wanted=at_request(profile), words="a request waits for it")
            found[key] = scale
    return found


def nothing_too_many(found: Group) -> Group:
    """Return a profile's replicas with none beyond what is wanted."""
    there = max(len(found.good), min(1, len(found.old)))
    return replace(found, wanted=max(found.wanted, there))


def waits_for(lost: MassLoss) -> str:
    """Return what is not done, and until when."""
    are = "is" if len(lost.nodes) == 1 else "are"
    return f"nothing is placed before {some(lost.nodes)} {are} heard"


def refusals(groups: Iterable[Group], lost: MassLoss) -> list[Refusal]:
    """Return a refusal for each profile that lacks replicas."""
    return [_refusal(found, lost.nodes) for found in groups if found.missing]


def _refusal(found: Group, nodes: Sequence[str]) -> Refusal:
    it_may = "it may run there"
    candidates = tuple(
        Candidate(
            node=node,
            verdict=Verdict(kind=NOT_NOW, rule=RULE, words=f"{node} is not heard: {it_may}"),
        )
        for node in nodes
    )
    are = "is" if len(nodes) == 1 else "are"
    words = f"not placed before {some(nodes)} {are} heard: {it_may}"
    return Refusal(
        model=found.model.name,
        profile=found.profile.name,
        candidates=candidates,
        words=f"{words}; if they are gone: llmgw ctl node accept-loss",
    )
