"""What has to come about once nothing is broken any more: what runs is what is wanted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from llmgw.control.nodes import holds
from llmgw.control.plane import Plane
from llmgw.model.shard import FAILED, READY, STOPPED
from llmgw.plan.backoff import held_back
from llmgw.plan.records import StartFailure
from llmgw_agent.supervise.environment import shard_of
from tests.sim.node import MEMORY_KIB
from tests.sim.rules import name_of

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation


def not_settled(sim: "Simulation") -> str | None:
    """Return what is not yet as it is wanted; None when everything is."""
    return next(_unsettled(sim), None)


def _unsettled(sim: "Simulation") -> Iterator[str]:
    plane = sim.leader()
    if plane is None:
        yield "nobody leads"
        return
    for node in sim.nodes:
        if not plane.agents.connected(node.name):
            yield f"{node.name} is not connected to {plane.server_id}"
    yield from _counts(sim, plane)
    yield from _processes(sim, plane)


def _counts(sim: "Simulation", plane: Plane) -> Iterator[str]:
    wanted = sim.operator.wanted()
    there: dict[str | None, int] = defaultdict(int)
    for replica in plane.fleet.replicas():
        if replica.state in {FAILED, STOPPED}:
            continue
        there[replica.model] += 1
        if replica.state != READY:
            yield f"{replica.id} is {replica.state}: {replica.reason}"
        elif replica.stale:
            yield f"{replica.id} is stale"
    for model in sorted({*wanted, *(name or "" for name in there)}):
        if there[model] < wanted.get(model, 0) and not fits_one_more(sim, model):
            sim.coverage.counts["all that fits is there, and more is wanted"] += 1
        elif there[model] != wanted.get(model, 0):
            passed = plane.passes["reconcile"].last
            said = (passed.sentence or passed.error) if passed is not None else None
            yield f"{there[model]} of {wanted.get(model, 0)} of {model} are there; {said}"


def nobody_gives_way(sim: "Simulation") -> bool:
    """Say whether there is a model that failed so often that nobody gives way to it now."""
    plane = sim.leader()
    if plane is None:
        return False
    failures: dict[str, list[StartFailure]] = defaultdict(list)
    for one in plane.fleet.shards.failures.all():
        failures[one.model].append(one)
    now = plane.clock.monotonic()
    return any(held_back(known, now).spared for known in failures.values())


def fits_one_more(sim: "Simulation", model: str) -> bool:
    """Say whether there is room for a replica, lower priorities gone; by processes alone."""
    entry = next(one for one in sim.memory.catalog.entries() if one.model.name == model)
    profile = entry.model.profiles[0]
    networks: Counter[int | None] = Counter()
    for node in sim.nodes:
        above = [
            one
            for one in node.machine.engines.values()
            if sim.operator.priority_of(one) >= profile.priority
        ]
        cards = node.cards - sum(len(one.devices) for one in above)
        memory = MEMORY_KIB * 1024 - sum(map(sim.reserves, above))
        needed = (profile.min_memory_gb or 0.0) * 1e9 if not profile.gpus else 0.0
        if cards >= profile.gpus and memory >= needed:
            networks[node.network if profile.nodes > 1 else None] += 1
    if profile.nodes > 1:
        networks.pop(None, None)
    return any(count >= profile.nodes for count in networks.values())


def _processes(sim: "Simulation", plane: Plane) -> Iterator[str]:
    for node in sim.nodes:
        seen = plane.fleet._nodes.get(node.name)
        known = {key for key, one in seen.shards.items() if holds(one)} if seen else set()
        for engine in node.machine.engines.values():
            if shard_of(engine.seen.environ) not in known:
                yield f"{name_of(engine)} runs on {node.name} and is not known"
            elif not engine.healthy:
                yield f"{name_of(engine)} on {node.name} is not healthy ({engine.faulted})"


def out_of_place(planes: Iterable[Plane | None], asked: set[str]) -> set[str]:
    """Return the models that the leader refuses and that a higher priority was asked for.

    What was started for a request may have taken the place of a lower priority.
    """
    found: set[str] = set()
    for plane in (one for one in planes if one is not None and one.leader):
        models = {one.model.name: one.model.profiles[0] for one in plane.catalog.entries()}
        highest = max((models[one].priority for one in asked & models.keys()), default=0)
        refusals = plane.last_plan.refusals if plane.last_plan is not None else ()
        refused = {refusal.model for refusal in refusals} & models.keys()
        found |= {one for one in refused if models[one].priority < highest}
    return found
