"""What would be decided: of this moment's fleet, and nothing is done."""

import asyncio
from collections.abc import Mapping

from llmgw.base.clock import Clock
from llmgw.control.catalog import Catalog
from llmgw.control.fleet import Fleet
from llmgw.control.tasks.reconcile import Reconcile
from llmgw.model.catalog import Model
from llmgw.plan.explain import explain
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.planner import plan_model
from llmgw.plan.records import Candidate, Plan
from llmgw.plan.serving.untried import judged
from llmgw.plan.whatif import Snapshot


class Foresight:
    """Answers what a pass, a placement or a new model would come to.

    Args:
        cluster: its name.
        version: llmgw's version.
        catalog: the models.
        fleet: what runs.
        reconcile: the pass that decides.
        clock: the time.
    """

    def __init__(
        self,
        cluster: str,
        version: str,
        *,
        catalog: Catalog,
        fleet: Fleet,
        reconcile: Reconcile,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._version = version
        self._catalog = catalog
        self._fleet = fleet
        self._reconcile = reconcile
        self._clock = clock

    def explain(self, model: str, profile: str | None = None) -> tuple[Candidate, ...]:
        """Return what placement says of each node for one more replica of a model.

        Args:
            model: its public name.
            profile: one of its profiles; None: the first.

        Raises:
            NotFound: the catalog has no such model or profile.
        """
        entry, one = self._catalog.profile(model, profile)
        desired, observed = self._reconcile.moment()
        return explain(entry, one, desired, observed, self._clock.monotonic())

    def next_plan(self, *, stopped: bool | None = None) -> Plan:
        """Return what the next pass would decide.

        Args:
            stopped: as if serving were stopped, or not; None: as it is.
        """
        return self._reconcile.preview(stopped=stopped)

    async def plan_model(self, model: Model) -> ModelPlan:
        """Return what serving a model would take.

        In a thread: it makes several plans of the whole fleet, and nothing else is to wait for it.
        """
        desired, observed = self._reconcile.moment()
        now = self._clock.monotonic()
        return await asyncio.to_thread(plan_model, model, desired, observed, now)

    async def judged(self, model: str) -> Mapping[str, tuple[Candidate, ...]]:
        """Return every node's verdict on one more replica of a model, by profile.

        Nodes on which it failed to start too often never fit; empty without such a model.
        """
        entry = self._catalog.get(model)
        if entry is None:
            return {}
        return await asyncio.to_thread(judged, entry.model, *self._reconcile.moment())

    def snapshot(self) -> Snapshot:
        """Return the cluster at this moment: what it is told and what there is."""
        desired, observed = self._reconcile.moment()
        return Snapshot(
            cluster=self._cluster,
            version=self._version,
            at=self._clock.now(),
            now=self._clock.monotonic(),
            desired=desired,
            observed=observed,
        )
