"""Planner scripts about where replicas go: devices, networks, disks, faults, other people."""

from typing import Any

import msgspec

from llmgw.model.catalog import HubSource
from llmgw.model.device import (
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NicDistance,
    NvlinkFabric,
    Xid,
)
from llmgw.model.fabric import NvlinkDomain, Port, SubnetManager
from llmgw.model.node import Filesystem, Node, WeightsHeld
from llmgw.model.weights import cache_name
from llmgw.plan.records import Booking, Cable, StartReplica
from tests.unit.plan.fleet import GB, H100, Fleet, gpu, mig, model, node

MIG_CLASS = "a100-80g-mig-3g.40gb"
CLUSTER = "b2daed23-0000-4000-8000-5a1e00c0ffee"
FEATURES = ("logs", "nvlink_domain", "settings", "shards")


def hub(name: str) -> HubSource:
    return HubSource(repository=f"org/{name}")


def ib(guid: str | None, adapter: int = 0, **more: Any) -> Port:
    """An InfiniBand port that is up."""
    said: dict[str, Any] = {"state": "4: ACTIVE", "link_layer": "InfiniBand", **more}
    return Port(adapter=f"mlx5_{adapter}", number=1, master_guid=guid, **said)


def roce(network: str, adapter: int = 8) -> Port:
    return Port(adapter=f"mlx5_{adapter}", number=1, state="4: ACTIVE", link_layer="Ethernet",
                network=network)  # fmt: skip


def tray(name: str, *, imex: bool = True, ports: tuple[Port, ...] = (), **more: Any) -> Node:
    """A tray of an NVLink rack: four cards."""
    fabric = NvlinkFabric(
        state="Completed", status="Success", cluster_uuid=CLUSTER, clique_id=more.pop("clique", 7)
    )
    return node(
        name,
        devices=tuple(gpu(name, number, "gb200-186g", nvlink=fabric) for number in range(4)),
        features=more.pop("features", FEATURES),
        inventory={
            "ports": ports,
            "nvlink_domain": NvlinkDomain(
                cluster_uuid=CLUSTER, imex_running=imex, imex_channels=("channel0",) if imex else ()
            ),
        },
        **more,
    )


def joined_how(fleet: Fleet, replica: str) -> None:
    """Write down what the shards of a replica are told of their network."""
    (step,) = [
        step for step in fleet.turn().steps
        if isinstance(step, StartReplica) and step.replica == replica
    ]  # fmt: skip
    for one in step.shards:
        ports = " ".join(one.spec.network_ports) or "none"
        fleet.say(f"{one.node} is told: domain {one.spec.nvlink_domain}, ports {ports}")


def mig_instances() -> Fleet:
    fleet = Fleet()
    cut = [gpu("gpu-01", card, "a100-80g", mig_enabled=True) for card in (0, 1)]
    bare = gpu("gpu-01", 2, "a100-80g", mig_enabled=True, unhealthy=("nothing is carved",))
    slices = [mig("gpu-01", card, instance) for card in (0, 1) for instance in (1, 2)]
    fleet.join(node("gpu-01", devices=(*cut, *slices, bare, gpu("gpu-01", 3, "a100-80g"))))
    fleet.serve(model("first", gpus=1, device_classes=(MIG_CLASS,)))
    fleet.turn()
    fleet.say("the second instance of a card goes before a card that is whole yet")
    fleet.serve(model("second", gpus=1, device_classes=(MIG_CLASS,)))
    fleet.serve(model("whole", gpus=1, device_classes=("a100-80g",)))
    fleet.turn()
    fleet.serve(model("pair", gpus=2, device_classes=(MIG_CLASS,)))
    fleet.serve(model("across", gpus=1, nodes=2, device_classes=(MIG_CLASS,)))
    fleet.serve(model("any-pair", gpus=2))
    fleet.turn()
    return fleet


def nvlink_rack() -> Fleet:
    fleet = Fleet()
    up = (ib("0xa"),)
    fleet.join(*(tray(f"tray-{n}", ports=up) for n in (1, 2, 3)))
    fleet.join(tray("tray-4", imex=False, ports=up))
    fleet.join(node("hgx-1", devices=4, features=FEATURES, inventory={"ports": up}))
    fleet.serve(model("rack", gpus=4, nodes=2))
    joined_how(fleet, "rack-000001")
    fleet.all_ready()
    fleet.say("one joined tray is left: InfiniBand is the fall-back, on cards of one class")
    fleet.serve(model("wide", gpus=4, nodes=2))
    joined_how(fleet, "wide-000002")
    return fleet


def nvlink_rack_without_imex() -> Fleet:
    fleet = Fleet()
    fleet.join(tray("tray-1"), tray("tray-2", imex=False), tray("tray-3", clique=8))
    fleet.join(tray("tray-4", features=("logs", "settings", "shards"), agent_version="0.1.0"))
    fleet.serve(model("rack", gpus=4, nodes=2))
    fleet.turn()
    fleet.say("nvidia-imex of tray-2 starts")
    fleet.join(tray("tray-2"))
    joined_how(fleet, "rack-000001")
    return fleet


def two_fabrics_under_one_name() -> Fleet:
    fleet = Fleet()
    for name, guid in (("gpu-01", "0xa"), ("gpu-02", "0xb"), ("gpu-03", "0xa")):
        fleet.join(node(name, devices=8, inventory={"ports": (ib(guid, fabric="ib"),)}))
    torn = (ib("0xa", 0, fabric="ib"), ib("0xb", 1, fabric="ib"))
    fleet.join(node("gpu-04", devices=8, inventory={"ports": torn}))
    fleet.serve(model("three", gpus=8, nodes=3, fabric="ib"))
    fleet.turn()
    fleet.serve(model("two", gpus=8, nodes=2, fabric="ib"))
    fleet.turn()
    return fleet


def managers_change_over() -> Fleet:
    fleet = Fleet()
    listed = (
        SubnetManager(guid="0xa", state="standby", master_guid="0xb"),
        SubnetManager(guid="0xb", state="master", master_guid="0xb"),
    )
    fleet.join(node("gpu-01", devices=8, inventory={"ports": (ib("0xa"),)}))
    fleet.join(
        node("gpu-02", devices=8, inventory={"ports": (ib("0xb"),), "subnet_managers": listed})
    )
    fleet.say("gpu-01 sees the master of before, gpu-02 its successor: one fabric has both")
    fleet.serve(model("huge", gpus=8, nodes=2))
    fleet.turn()
    return fleet


def eight_rails_and_a_storage_network() -> Fleet:
    fleet = Fleet()
    for name in ("gpu-01", "gpu-02"):
        rails = tuple(ib("0xa", rail, fabric="ib") for rail in range(8))
        ports = (*rails, roce("10.8.0.0/16"))
        fleet.join(node(name, devices=8, inventory={"ports": ports}))
    fleet.join(node("gpu-03", devices=8, inventory={"ports": (roce("10.8.0.0/16"),)}))
    fleet.serve(model("huge", gpus=8, nodes=2))
    joined_how(fleet, "huge-000001")
    fleet.all_ready()
    fleet.say("of what is left only the storage network joins anything")
    fleet.change("gpu-01", wish="draining")
    fleet.serve(model("more", gpus=8, nodes=2))
    fleet.turn()
    return fleet


def nodes_that_cannot_tell() -> Fleet:
    fleet = Fleet()
    for name, guid in (("a-tells", "0xa"), ("b-old", None), ("c-old", None)):
        fleet.join(node(name, devices=8, inventory={"ports": (ib(guid, fabric="ib"),)}))
    fleet.serve(model("three", gpus=8, nodes=3, fabric="ib"))
    fleet.turn()
    fleet.serve(model("two", gpus=8, nodes=2, fabric="ib"))
    fleet.turn()
    return fleet


def leaves_and_short_cables() -> Fleet:
    fleet = Fleet()
    leaves = {"n1": "leaf-1", "n2": "leaf-1", "n3": "leaf-2", "n4": "leaf-2", "n5": "leaf-2"}
    for name, leaf in leaves.items():
        rate = 200 if name == "n3" else 400
        port = ib("0xa", rate=rate * 10**9)
        fleet.join(node(name, devices=8, inventory={"ports": (port,)}))
        short = True if name == "n1" else None
        cable = Cable(adapter="mlx5_0", number=1, leaf=leaf, trained_short=short)
        fleet.rooms[name] = {"cables": (cable,)}
    fleet.say(
        "n1 and n2 are on leaf-1, the others on leaf-2; n1's cable trained short, n3's is slow"
    )
    fleet.serve(model("pair", gpus=8, nodes=2))
    fleet.turn()
    fleet.say("n2 is whole and takes a short one, for want of others")
    fleet.serve(model("next", gpus=8, nodes=2))
    fleet.turn()
    return fleet


def disk_that_fills_in_one_plan() -> Fleet:
    fleet = Fleet()
    free = (Filesystem(mount="/", free_bytes=100 * GB, directories=("/var/lib/llmgw-weights",)),)
    held = WeightsHeld(name=cache_name(hub("third")), complete=True)
    half = WeightsHeld(name=cache_name(hub("first")), complete=False)
    fleet.join(node("cpu-01", inventory={"filesystems": free, "weights": (held, half)}))
    for name in ("first", "second", "third"):
        fleet.serve(model(name, engine="llamacpp", source=hub(name), min_memory_gb=4, disk_gb=60))
    fleet.turn()
    return fleet


def memory_that_others_have() -> Fleet:
    fleet = Fleet()
    cards = tuple(gpu("gpu-01", n, "rtx4090-24g") for n in range(4))
    cards = tuple(msgspec.structs.replace(one, memory_bytes=24 * GB) for one in cards)
    fleet.join(node("gpu-01", devices=cards))

    def reading(number: int, used: int, *foreign: ForeignProcess) -> DeviceSample:
        return DeviceSample(
            uuid=cards[number].uuid,
            memory_used_bytes=used * GB,
            memory_total_bytes=24 * GB,
            foreign=foreign,
        )

    python = ForeignProcess(pid=4711, command="python", memory_bytes=21 * GB)
    desktop = ForeignProcess(pid=99, command="Xorg", kind="graphics", memory_bytes=5 * GB)
    fleet.readings["gpu-01"] = (
        reading(0, 21, python), reading(1, 21), reading(2, 5, desktop), reading(3, 1),
    )  # fmt: skip
    fleet.say("21 GB of gpu0 are python's, 21 GB of gpu1 nobody's, 5 GB of gpu2 a desktop's")
    fleet.serve(model("first", gpus=1))
    fleet.serve(model("second", gpus=1))
    fleet.turn()
    return fleet


def engine_that_outlived_its_replica() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1, memory_gb=32))
    fleet.bookings["gpu-01"] = [
        Booking(replica="old-7q2m4x", rank=0, model="gone", devices=("GPU-gpu-01-0",))
    ]
    fleet.say("gpu-01 is back with old-7q2m4x, which another replica superseded")
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.bookings["gpu-01"] = []
    full = DeviceSample(
        uuid="GPU-gpu-01-0", memory_used_bytes=71 * GB, memory_total_bytes=80 * GB, foreign=()
    )
    fleet.readings["gpu-01"] = (full,)
    fleet.say("it is reported stopped, and its memory is not free yet")
    fleet.turn()
    fleet.readings["gpu-01"] = (msgspec.structs.replace(full, memory_used_bytes=0),)
    fleet.turn()
    return fleet


def cards_of_others_and_none() -> Fleet:
    fleet = Fleet()
    other = Device(uuid="pci-0000:03:00.0", vendor="matrox", number=0, unhealthy=("no driver",))
    pulled = gpu("gpu-01", 1, unhealthy=("fell off the bus",))
    nameless = Device(uuid="GPU-x", kind="gpu", number=2, unhealthy=())
    fleet.join(node("gpu-01", devices=(other, pulled, nameless, gpu("gpu-01", 3))))
    fleet.serve(model("pair", gpus=2))
    fleet.serve(model("one", gpus=1, device_classes=(H100,)))
    fleet.turn()
    return fleet


def driver_errors_by_what_they_ask_for() -> Fleet:
    fleet = Fleet()
    lost = "XID 79 (fell off the bus): reboot the machine"
    fleet.join(node("gpu-01", devices=(gpu("gpu-01", 0, unhealthy=(lost,)), *(
        gpu("gpu-01", number) for number in (1, 2, 3)))))  # fmt: skip
    fleet.rooms["gpu-01"] = {
        "health": (
            DeviceHealth(
                uuid="GPU-gpu-01-1",
                xids=(Xid(code=31, count=9, action="restart_application", cleared=True),),
            ),
            DeviceHealth(uuid="GPU-gpu-01-2", xids=(Xid(code=159, count=1, cleared=False),)),
        )
    }
    hot = DeviceSample(uuid="GPU-gpu-01-3", throttle_reasons=("heat (hardware)",))
    fleet.readings["gpu-01"] = (hot,)
    fleet.say("gpu1 had errors of an application, gpu2 has one nobody knows, gpu3 throttles")
    for name in ("first", "second", "third", "fourth"):
        fleet.serve(model(name, gpus=1))
        fleet.turn()
    return fleet


def numa_nodes_and_bridges() -> Fleet:
    fleet = Fleet()
    near = (NicDistance(adapter="mlx5_0", distance="PIX"),)
    far = (NicDistance(adapter="mlx5_0", distance="SYS"),)
    plain = tuple(
        gpu(
            "pcie",
            n,
            "l40s-48g",
            numa_node=n // 4,
            nvlink_peers=(),
            adapters=far if n < 4 else near,
        )
        for n in range(8)
    )
    bridged = tuple(
        gpu("nvl", n, "h100-94g", numa_node=n // 2, nvlink_peers=(f"GPU-nvl-{n ^ 1}",))
        for n in range(4)
    )
    fleet.join(node("pcie", devices=plain), node("nvl", devices=bridged))
    fleet.say("pcie: eight cards on two NUMA nodes; nvl: two pairs with a bridge")
    fleet.serve(model("pair", gpus=2))
    fleet.turn()
    fleet.serve(model("four", gpus=4, device_classes=("l40s-48g",)))
    fleet.serve(model("single", gpus=1, device_classes=("h100-94g",)))
    fleet.turn()
    return fleet


def mixed_classes() -> Fleet:
    fleet = Fleet()
    both = (*(gpu("both", n) for n in range(2)), *(gpu("both", n, "a100-80g") for n in (2, 3)))
    fleet.join(node("both", devices=both, inventory={"ports": (ib("0xa"),)}))
    fleet.join(node("old", devices=tuple(gpu("old", n, "a100-80g") for n in range(2)),
                    inventory={"ports": (ib("0xa"),)}))  # fmt: skip
    fleet.serve(model("three", gpus=3))
    fleet.turn()
    fleet.say("a group has one class: the h100 of both go with nobody's")
    fleet.serve(model("group", gpus=2, nodes=2, device_classes=(H100, "a100-80g")))
    fleet.turn()
    fleet.serve(model("again", gpus=2, nodes=2))
    fleet.turn()
    return fleet


def lent_to_slurm() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1))
    fleet.rooms["gpu-01"] = {"lent": "Slurm"}
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.rooms["gpu-01"] = {}
    fleet.say("it is taken back")
    fleet.turn()
    return fleet


def unified_memory() -> Fleet:
    fleet = Fleet()
    spark = Device(uuid="GPU-s", kind="gpu", number=0, device_class="gb10", unified=True)
    fleet.join(node("spark", memory_gb=128, devices=(spark,)))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.say("what qwen takes of the machine's memory is not known")
    fleet.serve(model("gemma", min_memory_gb=8))
    fleet.turn()
    return fleet


SCRIPTS = (
    mig_instances,
    nvlink_rack,
    nvlink_rack_without_imex,
    two_fabrics_under_one_name,
    managers_change_over,
    eight_rails_and_a_storage_network,
    nodes_that_cannot_tell,
    leaves_and_short_cables,
    disk_that_fills_in_one_plan,
    memory_that_others_have,
    engine_that_outlived_its_replica,
    cards_of_others_and_none,
    driver_errors_by_what_they_ask_for,
    numa_nodes_and_bridges,
    mixed_classes,
    lent_to_slurm,
    unified_memory,
)
