"""Makes what runs what is wanted: gather, decide, check, apply (REC-1)."""

import itertools
import math
from collections.abc import Callable

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.control.execute import Executor
from llmgw.control.fleet import Fleet
from llmgw.control.leader import Leader
from llmgw.control.settings import LiveSettings
from llmgw.plan.blind import as_it_runs, is_blind
from llmgw.plan.check import check
from llmgw.plan.drain import LEAST
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import Desired, Observed, Plan
from llmgw.plan.scaling import Key, Scale, wants
from llmgw.plan.waking import woken

SLACK = 0.01
"""Seconds beyond the moment itself: a wake-up a hair too early would be followed by another."""


class Reconcile:
    """The pass `reconcile`.

    Args:
        desired: what the cluster is told, at this moment.
        new_id: makes a replica's id from its model's name.
        decided: told each plan, and what it was made for, before it is carried out.
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
        decided: Callable[[Plan, Desired], None],
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
        self._scales: dict[Key, Scale] = {}
        self._scaled_under: int | None = None
        """The term to which `_scales` belongs."""

    def period(self) -> float:
        """Return the seconds until the next pass: sooner when something may be drained before."""
        due = [LEAST - one.lasts for one in self._fleet.drains() if not one.told]
        soonest = min((left + SLACK for left in due if left > 0), default=math.inf)
        return min(self._settings.current.settings.reconcile.period, soonest)

    async def run(self) -> str:
        """Plan, check the plan, carry it out; return what was done and why, or why nothing was."""
        if not self._leader.leading:
            return "nothing to do: this control plane does not lead"
        self._fleet.losses.look()
        desired, observed = self._gather()
        plan = self._plan(desired, observed)
        self._decided(plan, desired)
        problems = check(plan, desired, observed)
        if problems:
            words = "; ".join(f"{problem.path}: {problem.words}" for problem in problems)
            raise LlmgwError(
                f"plan {plan.number} is not sound and was not carried out: {words}",
                hint="this is a fault of llmgw: please report it with the output of llmgw "
                "simulate --save FILE",
            )
        failed = await self._executor.apply(plan)
        return "; ".join((plan.sentence, *failed))

    def preview(self, *, stopped: bool | None = None) -> Plan:
        """Return what the next pass would decide; nothing is remembered, and nothing done.

        Args:
            stopped: as if the setting `serving.stopped` were that; None: as it is.
        """
        return self._thought(*self.moment(stopped=stopped))

    def moment(self, *, stopped: bool | None = None) -> tuple[Desired, Observed]:
        """Return what is wanted now, by load too, and what there is; nothing is remembered.

        Args:
            stopped: as if the setting `serving.stopped` were that; None: as it is.
        """
        desired, observed = self._desired(), self._fleet.observed()
        if stopped is not None:
            serving = msgspec.structs.replace(desired.settings.serving, stopped=stopped)
            settings = msgspec.structs.replace(desired.settings, serving=serving)
            desired = msgspec.structs.replace(desired, settings=settings)
        found = wants(self._scaled(desired, observed))
        return msgspec.structs.replace(desired, wants=found), observed

    def _gather(self) -> tuple[Desired, Observed]:
        """Return what is wanted, by the load of this moment too, and what there is."""
        desired, observed = self._desired(), self._fleet.observed()
        found = self._scaled(desired, observed)
        self._scales = self._before() if is_blind(observed) else found
        self._scaled_under = self._leader.term
        return msgspec.structs.replace(desired, wants=wants(found)), observed

    def _before(self) -> dict[Key, Scale]:
        """Return what scaling found before: of this term only."""
        return self._scales if self._scaled_under == self._leader.term else {}

    def _scaled(self, desired: Desired, observed: Observed) -> dict[Key, Scale]:
        """Return how many replicas are wanted now.

        Until all that runs is known, nothing is scaled: what is missing may be on its way.
        """
        before = self._before()
        if not observed.settled:
            return before
        if is_blind(observed):
            return as_it_runs(before, desired, observed, self._clock.monotonic())
        now, at = self._clock.monotonic(), self._clock.now()
        return woken(before, desired, observed, now, at, lambda d: self._thought(d, observed))

    def _thought(self, desired: Desired, observed: Observed) -> Plan:
        """Return what the next pass would decide; its ids are nobody's."""
        numbers = itertools.count(1)
        return reconcile(
            desired,
            observed,
            self._clock.monotonic(),
            number=self._number + 1,
            parent=self._number or None,
            new_id=lambda model: f"{model}-next-{next(numbers)}",
        )

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
