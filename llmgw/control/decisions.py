"""What was decided under this leader, and what follows from it: where requests go."""

from collections.abc import Callable

from llmgw.control.catalog import Catalog
from llmgw.control.feed import Feed
from llmgw.control.fleet import Fleet
from llmgw.control.settings import LiveSettings
from llmgw.model.feed import ROUTES
from llmgw.model.gateway import Route
from llmgw.model.record import Problem
from llmgw.plan.check import check
from llmgw.plan.records import Desired, Observed, Plan, Refusal, Want
from llmgw.plan.routes import routes
from llmgw.plan.serving.refused import Never, follow


class Decisions:
    """The last plan and what it was made for; those of another term say nothing of this one.

    Args:
        key: of a replica's engine.

    Attributes:
        last: what the last reconcile pass decided; None before the first.
        wants: how many replicas scaling wanted then.
        never: what the last plans refused for good.
    """

    def __init__(
        self, feed: Feed, catalog: Catalog, settings: LiveSettings, *, key: Callable[[str], str]
    ) -> None:
        self._feed = feed
        self._catalog = catalog
        self._settings = settings
        self._key = key
        self.forget()

    def forget(self) -> None:
        """Know of no plan."""
        self.last: Plan | None = None
        self.wants: tuple[Want, ...] = ()
        self.never: Never = {}

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Return what the last plan refused."""
        return self.last.refusals if self.last is not None else ()

    def desired(self) -> Desired:
        """Return what the cluster is told, at this moment."""
        return Desired(models=self._catalog.entries(), settings=self._settings.current.settings)

    def check(self, plan: Plan, observed: Observed) -> tuple[Problem, ...]:
        """Return what is wrong with a plan for a fleet, by what the cluster is told now."""
        return check(plan, self.desired(), observed)

    def routes(self, fleet: Fleet) -> tuple[Route, ...]:
        """Return where requests go, and why nothing serves them where that is so."""
        return routes(
            fleet.replicas(),
            fleet.nodes(),
            self._catalog.entries(),
            self._settings.current.settings,
            key=self._key,
            refusals=self.refusals,
            wants=self.wants,
        )

    def decided(self, plan: Plan, desired: Desired) -> None:
        """Note a plan and what it was made for; routes may say something else then."""
        before, self.last = self.last, plan
        scaled, self.wants = self.wants, desired.wants
        self.never = follow(self.never, plan, desired)
        if before is None or before.refusals != plan.refusals or scaled != self.wants:
            self._feed.touch(ROUTES)
