"""Any fleet left alone comes to rest, whatever its models need: nothing goes for ever.

With priorities, drains, MIG, several nodes and models on demand; only lower ones give way, nothing
is given out twice, and what one plan decides is all that there is to decide.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest

from llmgw.model.catalog import Model, Scaling
from llmgw.model.fabric import Port
from llmgw.model.node import Node
from llmgw.model.shard import READY, STARTING
from llmgw.plan.records import EvictReplica, Plan, PreemptReplica
from tests.unit.plan.fleet import Fleet, gpu, mig, model, node

YIELDS = (EvictReplica, PreemptReplica)
IN_A_ROW = 3
"""Passes of which none does anything: then it is at rest."""


def any_node(name: str, rng: Random) -> Node:
    """A node of some cards, a fifth of them with one that is cut into instances."""
    cards = [gpu(name, number) for number in range(rng.choice((0, 1, 2, 2, 4, 4)))]
    if rng.random() < 0.2:
        cut = gpu(name, 0, "a100-80g", mig_enabled=True)
        cards[:1] = [cut, *(mig(name, 0, number) for number in range(rng.randint(1, 3)))]
    fabric = rng.choice(("0xa", "0xa", "0xb"))
    port = Port(adapter="mlx5_0", number=1, link_layer="InfiniBand", state="4: ACTIVE",
                master_guid=fabric)  # fmt: skip
    return node(
        name,
        devices=tuple(cards),
        memory_gb=rng.choice((16, 25, 64, None)),
        cpus=rng.choice((4, 8, 16)),
        inventory={"ports": (port,) if rng.random() < 0.8 else ()},
        features=("shards", "nvlink_domain"),
    )


def any_model(name: str, rng: Random) -> Model:
    """A model of one node or several, always there or on demand."""
    shape: dict[str, Any] = {"gpus": rng.choice((0, 0, 1, 1, 2, 4))}
    if rng.random() < 0.25:
        shape = {"nodes": rng.choice((2, 2, 3)), "gpus": rng.choice((1, 2))}
    elif rng.random() < 0.15:
        shape = {"gpus": 1, "device_classes": ("a100-80g-mig-3g.40gb",)}
    replicas = 0 if rng.random() < 0.3 else rng.randint(1, 3)
    rests = rng.choice((None, 300.0, 5000.0))
    return model(
        name,
        replicas=replicas,
        max_replicas=rng.choice((None, replicas + 2)) if replicas else rng.randint(1, 3),
        scaling=rng.choice((None, Scaling(in_flight=2, down_window=40, idle_stop=rests))),
        min_memory_gb=rng.choice((None, 3, 10, 22.5)),
        cpu_cores=rng.choice((None, 2)),
        priority=rng.choice((0, 0, 1, 5)),
        context=rng.choice((None, 4096)),
        **shape,
    )


def something_happens(fleet: Fleet, names: str, rng: Random) -> None:
    """Let people, users and nodes change what is wanted, and let that be old news."""
    for name in names:
        if rng.random() < 0.5:
            fleet.serve(any_model(name, rng))
        elif rng.random() < 0.1 and name in fleet.models:
            fleet.withdraw(name)
    for name in fleet.nodes:
        if rng.random() < 0.2:
            wish = rng.choice((None, None, "draining", "draining", "cordoned"))
            fleet.change(name, wish=wish)
    for one in tuple(fleet.replicas.values()):
        if one.state == READY and rng.random() < 0.4:
            fleet.busy(one.id, rng.choice((0, 1, 3)))
    for name in fleet.models:
        if rng.random() < 0.2:
            fleet.waiting(name, rng.choice((0, 1)))
    fleet.wait(70)


def progress(fleet: Fleet, rng: Random) -> None:
    """Let some of what is under way come about."""
    for one in tuple(fleet.replicas.values()):
        if one.state == STARTING and rng.random() < 0.8:
            fleet.state(one.id, READY)
        elif one.state == "draining":
            fleet.busy(one.id, 0)
            if one.id in fleet.told_to_stop and rng.random() < 0.8:
                fleet.state(one.id, "stopped")


def nothing_is_given_twice(fleet: Fleet) -> None:
    for one in fleet.observed().nodes:
        held = Counter(uuid for booking in one.bookings for uuid in booking.devices)
        assert all(number == 1 for number in held.values()), (one.node.id, held)
        host = one.node.inventory.host
        assert host is not None
        memory = sum(booking.memory_bytes or 0 for booking in one.bookings)
        assert host.memory_bytes is None or memory <= host.memory_bytes
        assert sum(booking.cpu_cores or 0 for booking in one.bookings) <= (host.cpus or 0)


def only_lower_ones_go(fleet: Fleet, plan: Plan) -> None:
    priorities = {name: one.profiles[0].priority for name, one in fleet.models.items()}
    for step in plan.steps:
        if isinstance(step, YIELDS):
            mine = priorities[fleet.replicas[step.replica].model or ""]
            above = priorities[step.gives_way_to[0]]
            idle = fleet.in_flight.get(step.replica, 0) == 0
            equal = isinstance(step, EvictReplica) and idle and mine == above
            assert mine < above or equal, step.words


def drained_nodes_are_left(fleet: Fleet, plan: Plan) -> None:
    """Nothing stays on one unless there is no place for it, which is said."""
    refused = {refusal.model for refusal in plan.refusals}
    for one in fleet.replicas.values():
        drained = any(fleet.nodes[shard.node].wish == "draining" for shard in one.shards)
        assert not drained or one.model in refused, one.id


# The first ones had plans after which the next one let more go at once.
@pytest.mark.parametrize("seed", [113, 116, 152, 169, 231, 240, 446, 646, *range(30)])
def test_any_fleet_comes_to_rest(seed: int):
    rng = Random(seed)
    fleet = Fleet()
    fleet.join(*(any_node(f"n{number}", rng) for number in range(rng.randint(2, 6))))
    names = "abcdef"[: rng.randint(2, 6)]
    for _ in range(5):
        something_happens(fleet, names, rng)
        quiet, plan = 0, fleet.turn()
        for _ in range(120):
            only_lower_ones_go(fleet, plan)
            nothing_is_given_twice(fleet)
            progress(fleet, rng)
            fleet.wait(rng.choice((2, 2, 15)))
            under_way = any(one.state != READY for one in fleet.replicas.values())
            quiet = 0 if plan.steps or under_way else quiet + 1
            if quiet == IN_A_ROW:
                break
            plan = fleet.turn()
        assert quiet == IN_A_ROW, plan.sentence
        drained_nodes_are_left(fleet, plan)
