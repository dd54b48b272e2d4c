"""The fleet as a job that serves a model looks at it."""

from collections.abc import Callable, Iterable

from llmgw.control.catalog import Catalog
from llmgw.control.fleet import Fleet
from llmgw.control.settings import LiveSettings
from llmgw.model.node import LOST
from llmgw.model.replica import Replica
from llmgw.plan.records import Desired, Plan, Refusal, Want
from llmgw.plan.serving.records import Seen
from llmgw.plan.serving.refused import Never, follow, for_good


class JobView:
    """What a job is decided from: the fleet, and what the last plans of it refused.

    Args:
        settled: says, for the nodes that are still waited for, whether to decide without them.
    """

    def __init__(
        self,
        fleet: Fleet,
        catalog: Catalog,
        settings: LiveSettings,
        *,
        settled: Callable[[tuple[str, ...]], bool],
    ) -> None:
        self._fleet = fleet
        self._catalog = catalog
        self._settings = settings
        self._settled = settled
        self.forget()

    def forget(self) -> None:
        """Know of no plan: those of another term say nothing of this one."""
        self._refusals: tuple[Refusal, ...] = ()
        self._wants: tuple[Want, ...] = ()
        self._never: Never = {}

    def decided(self, plan: Plan, desired: Desired) -> None:
        """Take a plan of the fleet, and what it was made for."""
        self._refusals, self._wants = plan.refusals, desired.wants
        self._never = follow(self._never, plan, desired)

    def look(self, model: str) -> Seen:
        """Return what there is now for a job about a model."""
        waiting_for = self._fleet.waiting_for()
        entry, replicas = self._catalog.get(model), self._fleet.replicas()
        return Seen(
            settled=self._settled(waiting_for),
            waiting_for=waiting_for,
            stopped=self._settings.current.settings.serving.stopped,
            entry=entry,
            replicas=replicas,
            lost=self._lost(one for one in replicas if one.model == model),
            refusals=self._refusals,
            for_good=for_good(self._refusals, self._never, entry),
            wants=self._wants,
            failures=self._fleet.shards.failures.all(),
        )

    def _lost(self, replicas: Iterable[Replica]) -> frozenset[str]:
        names = {shard.node for replica in replicas for shard in replica.shards}
        known = {name: self._fleet.node(name) for name in names}
        return frozenset(
            name for name, node in known.items() if node is None or node.liveness == LOST
        )
