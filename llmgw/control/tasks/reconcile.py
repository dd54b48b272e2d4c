"""Makes what runs what is wanted: gather, decide, check, apply (REC-1)."""

from collections.abc import Callable

from llmgw.base.clock import Clock
from llmgw.control.execute import Executor
from llmgw.control.fleet import Fleet
from llmgw.control.leader import Leader
from llmgw.control.settings import LiveSettings
from llmgw.plan.check import check
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import Desired, Observed, Plan


class Reconcile:
    """The pass `reconcile`.

    Args:
        desired: what the cluster is told, at this moment.
        new_id: makes a replica's id from its model's name.
        decided: told each plan before it is carried out.
    """

    def __init__(
        self,
        fleet: Fleet,
        executor: Executor,
        leader: Leader,
        settings: LiveSettings,
        *,
        clock: Clock,
        desired: Callable[[], Desired],
        new_id: Callable[[str], str],
        decided: Callable[[Plan], None],
    ) -> None:
        self._fleet = fleet
        self._executor = executor
        self._leader = leader
        self._settings = settings
        self._clock = clock
        self._desired = desired
        self._new_id = new_id
        self._decided = decided
        self._number = 0

    def period(self) -> float:
        """Return the seconds between two passes."""
        return self._settings.current.settings.reconcile.period

    async def run(self) -> str:
        """Plan, check the plan, carry it out; return what was done and why, or why nothing was."""
        if not self._leader.leading:
            return "nothing to do: this control plane does not lead"
        desired, observed = self._desired(), self._fleet.observed()
        plan = self._plan(desired, observed)
        self._decided(plan)
        problems = check(plan, desired, observed)
        if problems:
            words = "; ".join(f"{problem.path}: {problem.words}" for problem in problems)
            return f"plan {plan.number} is not sound and was not carried out: {words}"
        failed = await self._executor.apply(plan)
        return "; ".join((plan.sentence, *failed))

    def _plan(self, desired: Desired, observed: Observed) -> Plan:
        parent = self._number or None
        self._number += 1
        return reconcile(
            desired,
            observed,
            self._clock.monotonic(),
            number=self._number,
            parent=parent,
            new_id=self._new_id,
        )
