"""What becomes of what is served when nodes go: the planner's answer, with nothing changed.

The fleet first comes to rest as it is told now; then the nodes are taken away for good, and plans
are carried out in thought until nothing more can be done. How long each step takes is not in it,
nor what fails on the way.
"""

from collections.abc import Iterable

import msgspec

from llmgw.model.catalog import REPLACE
from llmgw.model.record import Record
from llmgw.plan import massloss
from llmgw.plan.atrest import at_rest
from llmgw.plan.imagine import gone_through, without_nodes
from llmgw.plan.records import Desired, Observed, Refusal, StartReplica
from llmgw.plan.words import counted, some


class Snapshot(Record, frozen=True, kw_only=True):
    """A cluster at one moment: what it is told and what there is. It holds no secret.

    `at`: seconds since the epoch; `now`: the same moment on the monotonic clock of `observed`.
    """

    cluster: str
    version: str
    at: float
    now: float
    desired: Desired
    observed: Observed


class Served(Record, frozen=True, kw_only=True):
    """One model: how many replicas serve it before, right after, and in the end."""

    model: str
    before: int
    after: int
    """What is left at the moment at which the nodes are gone."""
    end: int
    """Once all was placed anew that can be."""
    policy: str
    """`keep` waits for the nodes, `replace` places anew."""


class WhatIf(Record, frozen=True, kw_only=True):
    """What happens when nodes go."""

    lost: tuple[str, ...]
    left: int
    """Nodes that stay."""
    models: tuple[Served, ...]
    """Those that lose a replica, or give way."""
    starts: tuple[StartReplica, ...] = ()
    gives_way: tuple[tuple[str, str], ...] = ()
    """Replicas of other models that have to go for them, and why."""
    refusals: tuple[Refusal, ...] = ()
    frozen: bool = False
    """So many at once are taken for a fault of the control plane: nothing is placed anew before an
    operator says that they are lost."""
    words: str


def what_if(snapshot: Snapshot, lost: Iterable[str]) -> WhatIf:
    """Return what happens when nodes go for good, at once.

    Args:
        snapshot: the cluster.
        lost: ids of its nodes.
    """
    gone = frozenset(lost)
    observed = msgspec.structs.replace(snapshot.observed, mass_loss=None)
    rested, _ = at_rest(snapshot.desired, gone_through(observed), snapshot.now)
    right_after = without_nodes(rested, gone)
    end, plans = at_rest(snapshot.desired, right_after, snapshot.now)
    steps = [step for plan in plans for step in plan.steps]
    here = {one.id for one in right_after.replicas}
    kept = {one.id for one in end.replicas}
    gives_way = {
        step.replica: step.words
        for step in steps
        if not isinstance(step, StartReplica) and step.replica in here - kept
    }
    models = _served(snapshot.desired, rested, right_after, end)
    nodes = len(rested.nodes)
    frozen = len(gone) >= massloss.LEAST and len(gone) * massloss.SHARE > nodes
    refusals = plans[-1].refusals
    return WhatIf(
        lost=tuple(sorted(gone)),
        left=nodes - len(gone),
        models=models,
        starts=tuple(s for s in steps if isinstance(s, StartReplica) and s.replica in kept),
        gives_way=tuple(sorted(gives_way.items())),
        refusals=refusals,
        frozen=frozen,
        words=_words(snapshot.desired, models, len(gone), nodes, frozen=frozen),
    )


def _served(
    desired: Desired, rested: Observed, after: Observed, end: Observed
) -> tuple[Served, ...]:
    found = []
    for entry in sorted(desired.models, key=lambda one: one.model.name):
        name = entry.model.name
        counts = [
            sum(1 for one in fleet.replicas if one.model == name) for fleet in (rested, after, end)
        ]
        if len(set(counts)) > 1:
            policy = entry.model.disconnect.policy
            before, left, last = counts
            found.append(Served(model=name, before=before, after=left, end=last, policy=policy))
    return tuple(found)


def _words(
    desired: Desired, models: tuple[Served, ...], lost: int, nodes: int, *, frozen: bool
) -> str:
    parts = [f"{lost} of {counted(nodes, 'node')} gone"]
    if desired.settings.serving.stopped:
        return "; ".join((*parts, "nothing changes: the cluster is stopped, and nothing is served"))
    dark = [one.model for one in models if one.before and not one.end]
    fewer = [
        f"{one.model} ({one.end} of {one.before})" for one in models if 0 < one.end < one.before
    ]
    waits = [one.model for one in models if one.after < one.before and one.policy != REPLACE]
    if frozen:
        parts.append("taken for a fault of the control plane: nothing moves before accept-loss")
    if dark:
        parts.append(f"not served any more: {some(dark)}")
    if fewer:
        parts.append(f"served by fewer: {some(fewer)}")
    if waits:
        parts.append(f"placed anew only once the nodes are removed (policy keep): {some(waits)}")
    if len(parts) == 1:
        parts.append("everything goes on as it is" if not models else "all is placed anew")
    return "; ".join(parts)
