"""What placement and a whole pass cost (PLC-11).

    python -m tests.bench.placement [--json] [--nodes 1000]

CPU milliseconds of this process, medians. Nodes have what real ones report: readings and health of
eight cards, eight InfiniBand rails and a port of the storage network, every tenth a card that
throttles. Bounds: one replica on 1,000 nodes of 8 GPUs under 20 ms, a pass over 1,000 replicas
under 1 s, growth at most linear in nodes. Exit status 1 beyond a bound.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import msgspec

from llmgw.model.catalog import CatalogEntry, HubSource, Model, Profile
from llmgw.model.device import Device, DeviceHealth, DeviceSample
from llmgw.model.fabric import Port, SubnetManager
from llmgw.model.node import Host, InstalledEngine, Inventory, Node, WeightsHeld
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.settings import Settings
from llmgw.model.weights import cache_name
from llmgw.plan.check import check
from llmgw.plan.explain import explain
from llmgw.plan.placement.place import Placement, place
from llmgw.plan.placement.request import request
from llmgw.plan.placement.room import Room
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import Booking, Desired, NodeRoom, Observed, Plan, StartReplica
from llmgw.plan.routes import routes

GB = 10**9
REPLICAS = 1000
GPUS = 8
BOUND_PLACE = 20.0
BOUND_PASS = 1000.0
BOUND_GROWTH = 1.5
"""Of the time per node, from the fewest to the most: linear is 1."""
SIZES = (250, 500, 1000, 2000)
MANAGER = "0x98039b0300a1b2c3"


def node(number: int, weights: tuple[WeightsHeld, ...] = ()) -> Node:
    """Return a machine of eight cards, of one of two classes."""
    name = f"gpu-{number:04}"
    kind = "h100-80g" if number % 4 else "a100-80g"
    devices = tuple(
        Device(
            uuid=f"GPU-{name}-{card}",
            kind="gpu",
            number=card,
            device_class=kind,
            numa_node=card // 4,
            nvlink_peers=tuple(f"GPU-{name}-{other}" for other in range(GPUS) if other != card),
            unhealthy=(),
        )
        for card in range(GPUS)
    )
    engine = InstalledEngine(engine="llamacpp", version="0.10434.0", state="installed")
    return Node(
        id=name,
        liveness="ready",
        since=0.0,
        address="192.0.2.1",
        features=("shards", "logs"),
        labels={"zone": "ab"[number % 2]},
        inventory=Inventory(
            host=Host(memory_bytes=1024 * GB, cpus=128),
            devices=devices,
            engines=(engine,),
            engines_probed=True,
            weights=weights,
            ports=ports(number),
            subnet_managers=(SubnetManager(guid=MANAGER, state="master", master_guid=MANAGER),),
        ),
    )


def ports(number: int) -> tuple[Port, ...]:
    """Return eight rails of one InfiniBand fabric and a RoCE port of the storage network."""
    rails = tuple(
        Port(
            adapter=f"mlx5_{rail}",
            number=1,
            link_layer="InfiniBand",
            state="4: ACTIVE",
            rate=400_000_000_000,
            lid=number,
            master_guid=MANAGER,
            fabric="ib",
        )
        for rail in range(GPUS)
    )
    storage = Port(
        adapter="mlx5_8",
        number=1,
        link_layer="Ethernet",
        state="4: ACTIVE",
        rate=200_000_000_000,
        network="10.8.0.0/16",
    )
    return (*rails, storage)


def room(one: Node, number: int, bookings: tuple[Booking, ...] = ()) -> NodeRoom:
    """Return a node with what its last heartbeat said of its cards."""
    devices = one.inventory.devices or ()
    hot = number % 10 == 0
    return NodeRoom(
        node=one,
        bookings=bookings,
        readings=tuple(
            DeviceSample(
                uuid=device.uuid,
                memory_used_bytes=GB // 2,
                memory_total_bytes=80 * GB,
                throttle_reasons=("heat (hardware)",) if hot and device.number == 0 else ("idle",),
                ecc_uncorrected=0,
                foreign=(),
            )
            for device in devices
        ),
        health=tuple(
            DeviceHealth(uuid=one.uuid, recovery_action="none", xids=()) for one in devices
        ),
    )


def fleet(nodes: int, weights: tuple[WeightsHeld, ...] = ()) -> Observed:
    """Return a fleet that runs nothing."""
    rooms = tuple(room(node(number, weights), number) for number in range(nodes))
    return Observed(nodes=rooms, replicas=())


def catalog(models: int, replicas: int, *, nodes: int = 1) -> Desired:
    """Return so many models with so many replicas each, of three shapes."""
    entries = []
    for number in range(models):
        profile = Profile(
            engine="llamacpp",
            nodes=nodes,
            gpus=(1, 2, 4)[number % 3],
            device_classes=("h100-80g", "a100-80g"),
            min_memory_gb=40,
            cpu_cores=4,
            replicas=replicas,
        )
        source = HubSource(repository=f"org/model-{number}")
        model = Model(name=f"model-{number:04}", source=source, profiles=(profile,))
        entries.append(CatalogEntry(model=model, version=1, changed=0.0, changed_by="bench"))
    return Desired(models=tuple(entries), settings=Settings())


def plan_of(desired: Desired, observed: Observed) -> Plan:
    """Run one pass."""
    numbers = iter(range(10**9))
    return reconcile(
        desired,
        observed,
        0.0,
        number=1,
        parent=None,
        new_id=lambda name: f"{name}-{next(numbers):06}",
    )


def carried_out(plan: Plan, observed: Observed) -> Observed:
    """Return the fleet on which every start of a plan is ready."""
    replicas: list[Replica] = []
    held: dict[str, list[Booking]] = {}
    for step in plan.steps:
        if not isinstance(step, StartReplica):
            continue
        shards = []
        for one in step.shards:
            spec = one.spec
            shards.append(
                ReplicaShard(
                    rank=spec.rank, node=one.node, state="ready", devices=spec.devices, port=7500
                )
            )
            booking = Booking(
                replica=step.replica,
                rank=spec.rank,
                model=step.model,
                devices=spec.devices,
                cpu_cores=spec.cpu_cores,
            )
            held.setdefault(one.node, []).append(booking)
        replicas.append(
            Replica(
                id=step.replica,
                model=step.model,
                profile=step.profile,
                fingerprint=step.shards[0].spec.fingerprint,
                state="ready",
                since=1.0,
                shards=tuple(shards),
            )
        )
    rooms = tuple(
        msgspec.structs.replace(one, bookings=tuple(held.get(one.node.id, ())))
        for one in observed.nodes
    )
    return Observed(nodes=rooms, replicas=tuple(replicas))


def median(run: Callable[[], object], times: int = 5) -> float:
    """Return the median of CPU milliseconds."""
    took = []
    for _ in range(times):
        begin = time.process_time()
        run()
        took.append((time.process_time() - begin) * 1000)
    return statistics.median(took)


def placing(nodes: int) -> tuple[float, float]:
    """Return the cost of one placement, room included, and of the placement alone."""
    observed, desired = fleet(nodes), catalog(2, 1)
    model = desired.models[1].model
    asked = request(model, model.profiles[0])
    rooms = [Room(observed) for _ in range(5)]

    def whole() -> None:
        assert isinstance(place(asked, Room(observed)), Placement)

    return median(whole), median(lambda: place(asked, rooms.pop()))


def measure(nodes: int) -> dict[str, float]:
    """Return every figure by name."""
    observed = fleet(nodes)
    shared = fleet(nodes, tuple(WeightsHeld(name=cache_name(HubSource(repository=f"org/model-{n}")))
                                for n in range(50)))  # fmt: skip
    few, many, one = catalog(50, REPLICAS // 50), catalog(REPLICAS, 1), catalog(1, REPLICAS)
    plan = plan_of(few, observed)
    running = carried_out(plan, observed)
    assert len(running.replicas) == REPLICAS
    assert plan_of(few, running).steps == ()
    refused = Desired(models=catalog(50, 1).models, settings=Settings())
    whole, alone = placing(nodes)
    groups = catalog(50, 2, nodes=4)
    return {
        "place one, with the room": whole,
        "place one, room at hand": alone,
        "place one on four nodes, with the room": median(lambda: _first(groups, observed)),
        "pass, all run": median(lambda: plan_of(few, running)),
        "pass, 50 models of 20 to start": median(lambda: plan_of(few, observed), 3),
        "pass, 50 models of 20 to start, weights on every node": median(
            lambda: plan_of(few, shared), 3
        ),
        "pass, 1,000 models of 1 to start": median(lambda: plan_of(many, observed), 3),
        "pass, 1 model of 1,000 to start": median(lambda: plan_of(one, observed), 3),
        "pass, 50 models of 2 on four nodes each to start": median(
            lambda: plan_of(groups, observed), 3
        ),
        "pass, 50 models refused by every node": median(
            lambda: plan_of(refused, Observed(nodes=_full(observed), replicas=())), 3
        ),
        "everything gives way at once": giving_way(observed),
        "check of 1,000 starts": median(lambda: check(plan, few, observed), 3),
        "explain": median(
            lambda: explain(few.models[0].model, few.models[0].model.profiles[0], few, running, 0.0)
        ),
        "routes of 1,000 replicas": median(
            lambda: routes(
                running.replicas,
                [room.node for room in running.nodes],
                few.models,
                few.settings,
                key=lambda replica: replica,
            )
        ),
    }


def giving_way(observed: Observed) -> float:
    """Return the cost of a pass in which every node's replica gives way to a higher priority."""
    nodes = len(observed.nodes)
    low, high = _whole_nodes("low", nodes, 0), _whole_nodes("high", nodes, 1)
    running = carried_out(plan_of(low, observed), observed)
    both = Desired(models=(*low.models, *high.models), settings=Settings())
    assert len(plan_of(both, running).steps) == nodes
    return median(lambda: plan_of(both, running), 3)


def _whole_nodes(name: str, replicas: int, priority: int) -> Desired:
    profile = Profile(engine="llamacpp", gpus=GPUS, replicas=replicas, priority=priority)
    model = Model(name=name, source=HubSource(repository=f"org/{name}"), profiles=(profile,))
    entry = CatalogEntry(model=model, version=1, changed=0.0, changed_by="bench")
    return Desired(models=(entry,), settings=Settings())


def _full(observed: Observed) -> tuple[NodeRoom, ...]:
    return tuple(
        msgspec.structs.replace(
            one,
            bookings=(
                Booking(
                    replica=f"other-{one.node.id}",
                    rank=0,
                    model="other",
                    devices=tuple(d.uuid for d in one.node.inventory.devices or ()),
                ),
            ),
        )
        for one in observed.nodes
    )


def _first(desired: Desired, observed: Observed) -> None:
    model = desired.models[0].model
    answer = place(request(model, model.profiles[0]), Room(observed))
    assert isinstance(answer, Placement), answer.words


def growth(sizes: tuple[int, ...] = SIZES) -> dict[str, float]:
    """Return what one placement costs by the number of nodes, room included."""
    return {str(nodes): placing(nodes)[0] for nodes in sizes}


def main() -> int:
    """Measure, print, and compare with the bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=1000)
    asked = parser.parse_args()
    figures = measure(asked.nodes)
    sizes = growth()
    first, last = SIZES[0], SIZES[-1]
    per_node = (sizes[str(last)] / last) / (sizes[str(first)] / first)
    if asked.json:
        print(json.dumps({**figures, "by nodes": sizes, "growth": per_node}))
    else:
        print(f"{asked.nodes} nodes x {GPUS} GPUs, CPU ms")
        for name, value in figures.items():
            print(f"{value:10.1f}  {name}")
        for name, value in sizes.items():
            print(f"{value:10.1f}  place one on {name} nodes, with the room")
        print(f"{per_node:10.2f}  growth of a placement per node, {first} to {last} (linear is 1)")
    bound = asked.nodes <= REPLICAS
    late = bound and figures["place one, with the room"] > BOUND_PLACE
    slow = bound and any(
        value > BOUND_PASS for name, value in figures.items() if name.startswith("pass")
    )
    return int(late or slow or per_node > BOUND_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
