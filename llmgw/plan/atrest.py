"""Carrying plans out in thought until the fleet has nothing more to do."""

from collections.abc import Callable
from itertools import count

from llmgw.plan.imagine import carried_out
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import Desired, Observed, Plan

PASSES = 32
"""Plans after which a fleet that still does something is taken as it is then."""


def at_rest(desired: Desired, observed: Observed, now: float) -> tuple[Observed, list[Plan]]:
    """Carry plans out until one does nothing; return the fleet then, and the plans."""
    plans: list[Plan] = []
    new_id = _ids(observed)
    for number in range(1, PASSES + 1):
        plan = reconcile(desired, observed, now, number=number, parent=None, new_id=new_id)
        plans.append(plan)
        if not plan.steps:
            break
        observed = carried_out(observed, plan)
    return observed, plans


def _ids(observed: Observed) -> Callable[[str], str]:
    numbers = count(1)
    taken = {one.id for one in observed.replicas}

    def new_id(model: str) -> str:
        while (name := f"{model}-{next(numbers)}") in taken:
            pass
        return name

    return new_id
