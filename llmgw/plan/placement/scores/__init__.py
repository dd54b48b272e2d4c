"""How well a node suits a replica that it can take: 0-100 a rule, summed by weight."""

from collections.abc import Callable, Mapping

from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.placement.scores.fit import fit
from llmgw.plan.placement.scores.group import group
from llmgw.plan.placement.scores.health import health
from llmgw.plan.placement.scores.link import link
from llmgw.plan.placement.scores.memory import memory
from llmgw.plan.placement.scores.ready import ready
from llmgw.plan.placement.scores.spread import spread
from llmgw.plan.placement.scores.weights import weights

Score = Callable[[Request, Space], int]

WEIGHTS = {
    "spread": 5,
    "health": 3,
    "weights": 2,
    "fit": 1,
    "memory": 1,
    "group": 1,
    "ready": 1,
    "link": 1,
}
"""How much each rule counts. Held weights outweigh fit and memory together; a second replica of a
model goes to another node even when the first one's holds the weights. A sick device outweighs held
weights. None of the rules keeps a replica away: each makes another node better than this one."""

OF_THE_MODEL: Mapping[str, Score] = {"spread": spread, "weights": weights}
OF_THE_NODE: Mapping[str, Score] = {"fit": fit, "memory": memory}
UNLESS_WHOLE: Mapping[str, Score] = {"health": health, "group": group, "ready": ready, "link": link}
"""Shown where something lowers them: on most nodes they are 100."""

NEUTRAL = 100 * WEIGHTS["spread"]
"""What the rules about the model give a node that knows nothing of it: no weights, no replica."""


def scores(request: Request, space: Space) -> dict[str, int]:
    """Return every rule's score of a node that can take the replica; some only below 100."""
    always = {**OF_THE_MODEL, **OF_THE_NODE}
    found = {rule: score(request, space) for rule, score in always.items()}
    lowered = ((rule, score(request, space)) for rule, score in UNLESS_WHOLE.items())
    return found | {rule: score for rule, score in lowered if score < 100}


def total(request: Request, space: Space) -> int:
    """Return the weighted sum of all rules."""
    return _of_node(request, space) + sum(
        WEIGHTS[rule] * score(request, space) for rule, score in OF_THE_MODEL.items()
    )


def total_of_stranger(request: Request, space: Space) -> int:
    """Return the sum for a node that knows nothing of the model: one for all alike requests."""
    return NEUTRAL + _of_node(request, space)


def _of_node(request: Request, space: Space) -> int:
    return (
        WEIGHTS["fit"] * fit(request, space)
        + WEIGHTS["memory"] * memory(request, space)
        + WEIGHTS["health"] * health(request, space)
        + WEIGHTS["group"] * group(request, space)
        + WEIGHTS["ready"] * ready(request, space)
        + WEIGHTS["link"] * link(request, space)
    )
