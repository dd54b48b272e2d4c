"""The fleet as a job that serves a model looks at it."""

from collections.abc import Callable, Iterable

from llmgw.control.catalog import Catalog
from llmgw.control.decisions import Decisions
from llmgw.control.fleet import Fleet
from llmgw.control.settings import LiveSettings
from llmgw.model.node import LOST
from llmgw.model.replica import Replica
from llmgw.plan.serving.records import Seen
from llmgw.plan.serving.refused import for_good


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
        decisions: Decisions,
        *,
        settled: Callable[[tuple[str, ...]], bool],
    ) -> None:
        self._fleet = fleet
        self._catalog = catalog
        self._settings = settings
        self._decisions = decisions
        self._settled = settled

    def look(self, model: str) -> Seen:
        """Return what there is now for a job about a model."""
        waiting_for = self._fleet.waiting_for()
        entry, replicas = self._catalog.get(model), self._fleet.replicas()
        made = self._decisions
        return Seen(
            settled=self._settled(waiting_for),
            waiting_for=waiting_for,
            stopped=self._settings.current.settings.serving.stopped,
            entry=entry,
            replicas=replicas,
            lost=self._lost(one for one in replicas if one.model == model),
            refusals=made.refusals,
            for_good=for_good(made.refusals, made.never, entry),
            wants=made.wants,
            failures=self._fleet.shards.failures.all(),
        )

    def _lost(self, replicas: Iterable[Replica]) -> frozenset[str]:
        names = {shard.node for replica in replicas for shard in replica.shards}
        known = {name: self._fleet.node(name) for name in names}
        return frozenset(
            name for name, node in known.items() if node is None or node.liveness == LOST
        )
