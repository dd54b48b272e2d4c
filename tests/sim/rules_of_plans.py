"""What has to hold of plans: no more is started than is wanted, none goes for a lesser one."""

from collections import Counter
from dataclasses import dataclass

from llmgw.control.plane import Plane
from llmgw.model.node import DRAINING, LOST
from llmgw.model.replica import LEAVING, Replica
from llmgw.model.shard import FAILED, READY, STOPPED, STUCK
from llmgw.plan.records import (
    Desired,
    EvictReplica,
    Plan,
    PreemptReplica,
    StartReplica,
    StopReplica,
)
from tests.sim.rules import Rules

TOLD = 1.0
"""Seconds within which a gateway tells of what it sent: what is younger may not be known yet."""
GIVES_WAY = (EvictReplica, PreemptReplica)


@dataclass
class RulesOfPlans(Rules):
    """Checks each plan, before it is carried out."""

    def decided(self, plane: Plane, plan: Plan, desired: Desired) -> None:
        """Check a plan against what is wanted and what there is."""
        starts = Counter(one.model for one in plan.steps if isinstance(one, StartReplica))
        given_up = {
            one.replica for one in plan.steps if not isinstance(one, (StartReplica, *GIVES_WAY))
        }
        wants = {one.model: one.replicas for one in desired.wants}
        for entry in desired.models if plan.steps else ():
            model = entry.model.name
            wanted = wants.get(model, entry.model.profiles[0].replicas)
            wanted = 0 if desired.settings.serving.stopped else wanted
            self._counts(plane, plan, model, wanted, starts[model], given_up)
        for one in plan.steps:
            if isinstance(one, GIVES_WAY):
                self._gives_way(plane, plan, desired, one)
            elif isinstance(one, StopReplica):
                self._finishes_first(plane, plan, desired, one)
            elif isinstance(one, StartReplica) and len(one.shards) > 1:
                self.coverage.counts["replica of several nodes started"] += 1

    def _counts(
        self, plane: Plane, plan: Plan, model: str, wanted: int, starts: int, given_up: set[str]
    ) -> None:
        """No plan starts more than is wanted, or gives up what is needed."""
        replicas = plane.fleet.replicas()
        good = [one.id for one in replicas if self._counts_as(plane, one, model)]
        kept = [one for one in good if one not in given_up]
        there = ", ".join(good) or "none"
        what = f"plan {plan.number} of {plane.server_id}, {wanted} of {model} are wanted"
        # Those that give way to a higher priority are placed anew, perhaps in the same plan.
        yields = sum(one.replica in good for one in plan.steps if isinstance(one, GIVES_WAY))
        if starts and len(good) - yields + starts > wanted:
            self.violated(f"{what}: starts {starts}, and there are {there}")
        # Those of many lost nodes are waited for, and count meanwhile.
        mass_loss = plane.fleet.observed().mass_loss if len(kept) < len(good) else None
        if mass_loss is None and len(kept) < min(wanted, len(good)):
            self.violated(f"{what}: gives up {given_up & set(good)} of {there}")

    def _gives_way(
        self, plane: Plane, plan: Plan, desired: Desired, step: EvictReplica | PreemptReplica
    ) -> None:
        """No replica gives way to one of a lower priority; one that serves to no equal either."""
        self.coverage.counts["somebody gave way"] += 1
        priorities = {one.model.name: one.model.profiles[0].priority for one in desired.models}
        replica = plane.fleet.replica(step.replica)
        mine = priorities.get((replica.model if replica is not None else None) or "")
        above = priorities.get(step.gives_way_to[0])
        what = f"plan {plan.number} of {plane.server_id}: {step.replica} of priority {mine}"
        if mine is None or above is None or above < mine + isinstance(step, PreemptReplica):
            self.violated(f"{what} gives way to {step.gives_way_to[0]} of priority {above}")
        elif isinstance(step, EvictReplica):
            loads = plane.loads.in_flight() or {}
            if loads.get(step.replica):
                self.violated(f"{what} is evicted as idle with {loads[step.replica]} in flight")

    def _finishes_first(
        self, plane: Plane, plan: Plan, desired: Desired, step: StopReplica
    ) -> None:
        """No replica is stopped that serves, before its limit is over or its replies are done."""
        replica = plane.fleet.replica(step.replica)
        what = f"plan {plan.number} of {plane.server_id} stops {step.replica}"
        if replica is not None and replica.state == READY:
            self.violated(f"{what}, which is ready and was not drained: {step.words}")
        lasts = next((d.lasts for d in plane.fleet.drains() if d.replica == step.replica), None)
        if lasts is None or lasts >= desired.settings.reconcile.drain_limit:
            return
        self.coverage.counts["drained before its limit"] += 1
        left = [one for one in self.sim.requests.at(step.replica) if one.began < self.now - TOLD]
        if left:
            self.violated(
                f"{what} {lasts:.1f} s after it left the routes, with {len(left)} in flight: "
                f"{step.words}"
            )

    @property
    def now(self) -> float:
        """Return the time."""
        return self.sim.loop.time()

    def _counts_as(self, plane: Plane, replica: Replica, model: str) -> bool:
        if replica.model != model or replica.state in {FAILED, STOPPED, STUCK, *LEAVING}:
            return False
        if replica.stale:
            return False
        nodes = [plane.fleet.node(shard.node) for shard in replica.shards]
        return all(n is not None and n.liveness != LOST and n.wish != DRAINING for n in nodes)
