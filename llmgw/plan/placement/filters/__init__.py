"""Why a node can't take a replica: one small function a rule, each with its own words.

A filter returns None when the node passes. What a node does not say never turns it away (invariant
4): an old agent is asked and refuses by itself.
"""

from collections.abc import Callable

from llmgw.plan.placement.devices import chosen_class
from llmgw.plan.placement.filters.agent import agent
from llmgw.plan.placement.filters.cores import cores
from llmgw.plan.placement.filters.devices import devices
from llmgw.plan.placement.filters.disk import disk
from llmgw.plan.placement.filters.engine import engine
from llmgw.plan.placement.filters.labels import labels
from llmgw.plan.placement.filters.lent import lent
from llmgw.plan.placement.filters.memory import memory
from llmgw.plan.placement.filters.shape import mig, spans
from llmgw.plan.placement.filters.state import state
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, Verdict

Filter = Callable[[Request, Space], Verdict | None]

FILTERS: tuple[Filter, ...] = (
    mig,
    spans,
    state,
    lent,
    agent,
    labels,
    devices,
    memory,
    cores,
    engine,
    disk,
)
"""In the order in which a person would ask: is it possible, there, meant, big enough, ready.

The network of a replica of several nodes comes after all of them: see `several`.
"""


def needed(request: Request) -> tuple[Filter, ...]:
    """Return the filters that a request asks anything of: the others say nothing of any node."""
    profile = request.profile
    asks: dict[Filter, bool] = {
        mig: "-mig-" in "".join(profile.device_classes),
        spans: profile.nodes > 1,
        labels: bool(profile.node_selector),
        devices: profile.gpus > 0,
        memory: request.memory_bytes is not None,
        cores: profile.cpu_cores is not None,
        disk: request.disk_bytes is not None,
    }
    return tuple(rule for rule in FILTERS if asks.get(rule, True))


def first_refusal(
    request: Request, space: Space, filters: tuple[Filter, ...] = FILTERS
) -> Verdict | None:
    """Return what the first filter says that turns the node away; None: it can take the replica.

    What would pass with time says nothing where something else never does: then that is returned.
    """
    found: Verdict | None = None
    for rule in filters:
        verdict = rule(request, space)
        if verdict is not None and verdict.kind == NEVER:
            return verdict
        found = found or verdict
    return found


def fits(request: Request, space: Space, filters: tuple[Filter, ...] = FILTERS) -> bool:
    """Say whether a node can take a replica, or a shard of it; no words are made of its devices."""
    if request.profile.gpus and chosen_class(request, space) is None:
        return False
    return all(rule(request, space) is None for rule in filters)
