"""Fleets and profiles of every kind: what nodes have, what they can't say, who is there.

Each node is made from a number of its own: hypothesis leaves out nodes that do not matter, and does
not have to draw forty choices for each.
"""

from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st

from llmgw.model.catalog import HubSource, Model
from llmgw.model.device import (
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NicDistance,
    NvlinkFabric,
    PciLink,
    Xid,
)
from llmgw.model.fabric import NvlinkDomain, Port, SubnetManager
from llmgw.model.node import (
    Filesystem,
    Host,
    InstalledEngine,
    Inventory,
    Node,
    WeightsHeld,
)
from llmgw.model.weights import cache_name
from llmgw.plan.records import Booking, Cable, NodeRoom, Observed
from tests.unit.plan.fleet import GB, model

MIG_CLASS = "a100-80g-mig-3g.40gb"
CLASSES = ("h100-80g", "a100-80g")
NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
SOURCES = tuple(HubSource(repository=f"org/{name}") for name in ("one", "two"))
HOSTS = (None, Host(), Host(memory_bytes=64 * GB, cpus=8), Host(memory_bytes=16 * GB))
FEATURES = (None, ("shards",), *(("shards", "nvlink_domain"),) * 7, ())
ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"


def cards(name: str, rng: Random) -> tuple[Device, ...]:
    """The cards of a machine: alike or mixed, bridged or not, some cut up or broken."""
    count = rng.choice((0, 1, 2, 2, 4, 4))
    how = rng.choice(("unknown", "none", "all", "pairs"))
    classes = rng.choice(((CLASSES[0],), (CLASSES[1],), CLASSES, (None,)))
    found: list[Device] = []
    for number in range(count):
        cut = rng.random() < 0.1
        near = (NicDistance(adapter="mlx5_0", distance=rng.choice(("PIX", "SYS"))),)
        found.append(
            Device(
                uuid=f"GPU-{name}-{number}",
                kind="gpu",
                number=number,
                device_class=classes[number % len(classes)],
                memory_bytes=rng.choice((None, 24 * GB, 80 * GB)),
                unified=rng.random() < 0.1,
                numa_node=rng.choice((None, 0, 1)),
                nvlink_peers=_peers(name, number, count, how),
                adapters=rng.choice((None, near)),
                pci=rng.choice((None, PciLink(lanes=4, max_lanes=16))),
                mig_enabled=cut or None,
                unhealthy=rng.choice((*((),) * 8, None, ("fell off the bus",))),
            )
        )
        found += _instances(name, number, rng.randint(0, 2)) if cut else ()
    return tuple(found)


def _instances(name: str, card: int, count: int) -> tuple[Device, ...]:
    return tuple(
        Device(
            uuid=f"MIG-{name}-{card}-{instance}",
            kind="mig",
            number=1000 + 100 * card + instance,
            device_class=MIG_CLASS,
            card_uuid=f"GPU-{name}-{card}",
            memory_bytes=40 * GB,
            unhealthy=(),
        )
        for instance in range(count)
    )


def _peers(name: str, number: int, count: int, how: str) -> tuple[str, ...] | None:
    others = {
        "unknown": None,
        "none": (),
        "all": tuple(other for other in range(count) if other != number),
        "pairs": (number ^ 1,) if number ^ 1 < count else (),
    }[how]
    return None if others is None else tuple(f"GPU-{name}-{other}" for other in others)


def ports(rng: Random) -> tuple[Port, ...] | None:
    """Ports of two InfiniBand fabrics and two RoCE networks; some can't tell, some are down."""
    if rng.random() < 0.1:
        return None
    layer = rng.choice(("InfiniBand", "InfiniBand", "Ethernet", None))
    return tuple(
        Port(
            adapter=f"mlx5_{number}",
            number=1,
            link_layer=layer if rng.random() < 0.8 else "Ethernet",
            state=rng.choice((*(ACTIVE,) * 8, DOWN, None)),
            master_guid=rng.choice((None, *("0xa",) * 6, "0xb")),
            network=rng.choice((None, *("10.0.0.0/24",) * 4, "10.1.0.0/24")),
            rate=rng.choice((None, 200 * 10**9, 400 * 10**9)),
            fabric=rng.choice((None, None, "ib")),
        )
        for number in range(rng.randint(0, 2))
    )


def tray(name: str, rng: Random) -> tuple[tuple[Device, ...], NvlinkDomain]:
    """A tray of an NVLink rack, of which one thing may be wrong or not known."""
    fabric = NvlinkFabric(
        state=rng.choice(("Completed", "Completed", "Completed", "In Progress")),
        status="Success",
        cluster_uuid="c0ffee-1",
        clique_id=rng.choice((7, 7, 7, 8, None)),
    )
    devices = tuple(
        Device(
            uuid=f"GPU-{name}-{number}",
            kind="gpu",
            number=number,
            device_class=CLASSES[0],
            memory_bytes=80 * GB,
            nvlink=fabric,
            unhealthy=(),
        )
        for number in range(2)
    )
    running = rng.choice((True, True, True, False, None))
    return devices, NvlinkDomain(imex_running=running, imex_channels=("channel0",))


def any_node(name: str, rng: Random) -> Node:
    """A node of any kind."""
    devices: tuple[Device, ...] | None = cards(name, rng)
    domain = None
    if rng.random() < 0.3:
        devices, domain = tray(name, rng)
    if rng.random() < 0.05:
        devices = None
    engine = InstalledEngine(
        engine="llamacpp", state=rng.choice((*("installed",) * 6, "installing"))
    )
    return Node(
        id=name,
        liveness=rng.choice(("ready",) * 30 + ("unreachable", "lost", None)),
        wish=rng.choice((None,) * 30 + ("cordoned", "draining")),
        address=rng.choice((*("192.0.2.1", "192.0.2.2", "192.0.2.3") * 5, None)),
        agent_version="0.1.0",
        features=rng.choice(FEATURES),
        labels=rng.choice(({}, {"zone": "a"})),
        inventory=Inventory(
            host=rng.choice(HOSTS),
            devices=devices,
            filesystems=rng.choice((None, (), (Filesystem(mount="/", free_bytes=100 * GB),))),
            engines=rng.choice((None, (), *((engine,),) * 6)),
            engines_probed=rng.choice((None, True, False)),
            ports=ports(rng),
            subnet_managers=rng.choice(
                (None, None, None, (SubnetManager(guid="0xa", master_guid="0xb"),))
            ),
            nvlink_domain=domain,
            weights=tuple(
                WeightsHeld(name=cache_name(one), complete=rng.choice((True, None, False)))
                for one in SOURCES
                if rng.random() < 0.5
            ),
        ),
    )


def nearly_good(name: str, rng: Random) -> Node:
    """A machine as one would wish, but for a few things that any machine may have."""
    odd = any_node(name, rng)
    joined = NvlinkFabric(state="Completed", status="Success", cluster_uuid="c0ffee-1", clique_id=7)
    rack = rng.random() < 0.5
    good = Inventory(
        host=Host(memory_bytes=64 * GB, cpus=8),
        devices=tuple(
            Device(
                uuid=f"GPU-{name}-{number}",
                kind="gpu",
                number=number,
                device_class=CLASSES[0],
                memory_bytes=80 * GB,
                nvlink=joined if rack else None,
                nvlink_peers=_peers(name, number, 4, "all"),
                unhealthy=(),
            )
            for number in range(4)
        ),
        engines=(InstalledEngine(engine="llamacpp", state="installed"),),
        engines_probed=True,
        filesystems=(Filesystem(mount="/", free_bytes=100 * GB),),
        ports=tuple(
            Port(
                adapter=f"mlx5_{number}",
                number=1,
                link_layer="InfiniBand",
                state=ACTIVE,
                master_guid="0xa",
                fabric="ib",
                rate=400 * 10**9,
            )
            for number in range(2)
        ),
        nvlink_domain=NvlinkDomain(
            imex_running=rng.choice((*(True,) * 6, False, None)), imex_channels=("channel0",)
        ),
        weights=odd.inventory.weights,
    )
    kept = {field: getattr(odd.inventory, field) for field in good.__struct_fields__
            if rng.random() < 0.1}  # fmt: skip
    node = Node(
        id=name,
        liveness="ready",
        address=f"192.0.2.{rng.randint(1, 9)}",
        features=("shards", "nvlink_domain"),
        inventory=msgspec.structs.replace(good, **kept),
    )
    if rng.random() < 0.8:
        return node
    return msgspec.structs.replace(odd, inventory=node.inventory)


def any_room(name: str, seed: int) -> NodeRoom:
    """A node, what is held on it, what else is known of it. No device is held twice."""
    rng = Random(seed)
    one = nearly_good(name, rng) if rng.random() < 0.7 else any_node(name, rng)
    devices = one.inventory.devices or ()
    sick = Xid(code=159, count=1, cleared=rng.random() < 0.5)
    leaves = rng.choice(((), ("leaf-1",), ("leaf-2",)))
    return NodeRoom(
        node=one,
        bookings=_bookings(name, devices, rng),
        readings=rng.choice((None, None, tuple(_reading(device, rng) for device in devices))),
        health=rng.choice((None, tuple(DeviceHealth(uuid=d.uuid, xids=(sick,)) for d in devices))),
        cables=tuple(
            Cable(adapter="mlx5_0", number=1, leaf=leaf, trained_short=rng.random() < 0.3)
            for leaf in leaves
        ),
        lent=rng.choice((None,) * 30 + ("Slurm",)),
    )


def _reading(device: Device, rng: Random) -> DeviceSample:
    stranger = ForeignProcess(
        pid=7,
        kind=rng.choice(("graphics", "graphics", "compute", None)),
        memory_bytes=rng.choice((None, GB, 20 * GB)),
    )
    return DeviceSample(
        uuid=device.uuid,
        memory_used_bytes=rng.choice((None, 0, *(GB,) * 6, 30 * GB)),
        memory_total_bytes=device.memory_bytes,
        throttle_reasons=rng.choice((None, ("idle",), ("heat (hardware)",))),
        foreign=rng.choice((None, *((),) * 6, (stranger,))),
    )


def _bookings(name: str, devices: tuple[Device, ...], rng: Random) -> tuple[Booking, ...]:
    found: list[Booking] = []
    taken: set[str] = set()
    for number in range(rng.choice((0, 0, 1, 2))):
        given: list[str] = []
        for device in rng.sample(devices, min(len(devices), rng.randint(0, 2))):
            beside = {device.uuid, device.card_uuid or device.uuid}
            beside |= {other.uuid for other in devices if other.card_uuid == device.uuid}
            if not beside & taken:
                given.append(device.uuid)
                taken |= beside
        found.append(
            Booking(
                replica=f"old-{name}-{number}",
                rank=0,
                model=rng.choice(("m1", "m2", *("other",) * 6, None)),
                devices=tuple(given),
                memory_bytes=rng.choice((None, 4 * GB)),
                cpu_cores=rng.choice((None, 2)),
            )
        )
    return tuple(found)


def any_model(name: str, seed: int) -> Model:
    """A model with one profile, possible or not."""
    rng = Random(seed)
    engine = rng.choice(("simulated", "llamacpp"))
    nodes = rng.choice((1, 1, 1, 2, 2, 3))
    profile: dict[str, Any] = {
        "engine": engine,
        "gpus": rng.choice((0, 1, 1, 2) if nodes == 1 else (1, 1, 2)),
        "nodes": nodes,
        "device_classes": rng.choice(
            (*((),) * 6, *((CLASSES[0],),) * 3, CLASSES, CLASSES[::-1], (MIG_CLASS,))
        ),
        "fabric": rng.choice((None, None, "ib")) if nodes > 1 else None,
        "min_memory_gb": rng.choice((None, None, 4, 20)),
        "cpu_cores": rng.choice((None, None, 2, 6)),
        "disk_gb": rng.choice((None, 60)),
        "node_selector": rng.choice((*({},) * 6, {"zone": "a"})),
    }
    source = None if engine == "simulated" else rng.choice(SOURCES)
    return model(name, source=source, **profile)


seeds = st.integers(0, 1 << 32)
fleets = st.lists(seeds, max_size=len(NAMES)).map(
    lambda found: Observed(
        nodes=tuple(any_room(name, seed) for name, seed in zip(NAMES, found, strict=False)),
        replicas=(),
    )
)
models = st.builds(any_model, st.sampled_from(("m1", "m2", "m3")), seeds)
needs = st.sampled_from((None, None, 20 * GB, 70 * GB))
"""What a replica is expected to need on each of its devices."""
