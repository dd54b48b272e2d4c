"""Planner scripts: each tells a story to a fleet; the transcript is kept in snapshots/plan."""

from typing import Any

import msgspec

from llmgw.model.catalog import PackageRef, PackageSource
from llmgw.model.device import DeviceSample, ForeignProcess, PciLink
from llmgw.model.fabric import Port
from llmgw.model.node import Filesystem, InstalledEngine, Inventory, Node, WeightsHeld
from llmgw.model.shard import READY, STUCK
from llmgw.model.weights import cache_name
from llmgw.plan.records import Booking, StartReplica
from tests.unit.plan.fleet import H100, Fleet, gpu, mig, model, node

SOURCE = PackageSource(
    packages=(PackageRef(name="small", version="1", sha256="0" * 64),),
    parts=("a",),
    file="small.gguf",
    sha256="0" * 64,
    size_bytes=250_000_000,
)
LLAMA: dict[str, Any] = {"engine": "llamacpp", "source": SOURCE, "min_memory_gb": 1.0}


def empty_fleet() -> Fleet:
    fleet = Fleet()
    fleet.turn()
    fleet.serve(model("qwen"))
    fleet.turn()
    return fleet


def one_cpu_node() -> Fleet:
    fleet = Fleet()
    fleet.join(node("atlas", memory_gb=8, cpus=4))
    fleet.serve(model("gemma", **LLAMA, cpu_cores=2))
    fleet.serve(model("large", engine="llamacpp", source=SOURCE, min_memory_gb=24))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def eight_gpus() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=8, memory_gb=512), node("cpu-01"))
    fleet.serve(model("qwen", gpus=2, device_classes=(H100,)))
    fleet.serve(model("gemma", min_memory_gb=4))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("qwen", gpus=2, device_classes=(H100,), replicas=4))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def full_node() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2, memory_gb=512))
    fleet.serve(model("qwen", gpus=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("llama", gpus=1))
    fleet.serve(model("wide", gpus=4))
    fleet.turn()
    fleet.withdraw("qwen")
    fleet.turn()
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def devices_that_are_not_given_out() -> Fleet:
    fleet = Fleet()
    cards = (
        gpu("gpu-01", 0),
        msgspec.structs.replace(gpu("gpu-01", 1), unhealthy=("fell off the bus",)),
        msgspec.structs.replace(gpu("gpu-01", 2), mig_enabled=True),
        gpu("gpu-01", 3),
    )
    fleet.join(node("gpu-01", devices=cards), node("gpu-02", devices=(mig("gpu-02", 0, 1),)))
    worker = ForeignProcess(pid=4711, command="python")
    fleet.readings["gpu-01"] = (DeviceSample(uuid="GPU-gpu-01-3", foreign=(worker,)),)
    fleet.serve(model("two", gpus=2, device_classes=(H100,)))
    fleet.serve(model("slice", gpus=1, device_classes=("a100-80g-mig-3g.40gb",)))
    fleet.serve(model("slices", gpus=2, device_classes=("a100-80g-mig-3g.40gb",)))
    fleet.serve(model("other", gpus=1, device_classes=("mi300x-192g",)))
    fleet.turn()
    return fleet


def foreign_process_comes_and_goes() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1))
    worker = ForeignProcess(pid=4711, command="python")
    fleet.readings["gpu-01"] = (DeviceSample(uuid="GPU-gpu-01-0", foreign=(worker,)),)
    fleet.say("somebody's python is on gpu0")
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.readings["gpu-01"] = (DeviceSample(uuid="GPU-gpu-01-0", foreign=()),)
    fleet.say("it is gone, and no agent was started anew")
    fleet.turn()
    fleet.all_ready()
    fleet.readings["gpu-01"] = (DeviceSample(uuid="GPU-gpu-01-0", foreign=(worker,)),)
    fleet.say("it is back beside the replica")
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    return fleet


def driver_error_until_the_reset() -> Fleet:
    fleet = Fleet()
    lost = "XID 79 (fell off the bus) at 2027-01-15 08:00 UTC: reboot the machine"
    sick = msgspec.structs.replace(gpu("gpu-01", 0), unhealthy=(lost,))
    fleet.join(node("gpu-01", devices=(sick, gpu("gpu-01", 1))))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    well = msgspec.structs.replace(sick, unhealthy=())
    fleet.say("the machine was rebooted, its card is back")
    fleet.change_inventory("gpu-01", devices=(well, gpu("gpu-01", 1)))
    fleet.turn()
    return fleet


def slow_links_are_taken_last() -> Fleet:
    fleet = Fleet()
    narrow = PciLink(max_generation=5, card_generation=5, lanes=4, max_lanes=16)
    full = PciLink(max_generation=5, card_generation=5, lanes=16, max_lanes=16)
    fleet.join(node("gpu-01", devices=(gpu("gpu-01", 0, pci=narrow), gpu("gpu-01", 1, pci=full))))
    fleet.join(node("gpu-02", devices=(gpu("gpu-02", 0, pci=narrow), gpu("gpu-02", 1, pci=narrow))))
    fleet.say("three of four cards have 4 of 16 lanes")
    for name in ("first", "second", "third", "fourth"):
        fleet.serve(model(name, gpus=1))
        fleet.turn()
    return fleet


def port_that_is_down() -> Fleet:
    fleet = Fleet()
    up = Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0x1")
    down = Port(adapter="mlx5_0", number=1, state="DOWN")
    for name in ("gpu-01", "gpu-02"):
        fleet.join(node(name, devices=2, inventory={"ports": (up,)}))
    fleet.change_inventory("gpu-02", ports=(down,))
    fleet.say("the port of gpu-02 is down")
    fleet.serve(model("wide", gpus=2, nodes=2))
    fleet.turn()
    fleet.serve(model("local", gpus=1, replicas=3))
    fleet.turn()
    return fleet


def installing_engine() -> Fleet:
    fleet = Fleet()
    downloading = InstalledEngine(
        engine="llamacpp", state="installing", words="installing: downloading llama.cpp (16 MB)"
    )
    fleet.join(node("atlas", engines=(downloading,)), node("borea", engines=()))
    fleet.join(node("cora", engines=None, inventory={"engines_probed": False}))
    fleet.serve(model("gemma", **LLAMA))
    fleet.serve(model("coder", engine="vllm", source=SOURCE, gpus=0, min_memory_gb=1))
    fleet.turn()
    failed = InstalledEngine(
        engine="llamacpp", state="failed", words="llamacpp: libgomp.so.1 is missing"
    )
    fleet.change_inventory("borea", engines=(failed,))
    old = InstalledEngine(engine="llamacpp", state="installed", version="0.9")
    fleet.change_inventory("atlas", engines=(old,))
    fleet.change_inventory("cora", engines=(), engines_probed=True)
    fleet.serve(model("gemma", **LLAMA, engine_version="0.10434.0"))
    fleet.turn()
    own = InstalledEngine(engine="llamacpp", state="installed", by_operator=True, path="/opt/x")
    fleet.change_inventory("cora", engines=(own,))
    fleet.turn()
    return fleet


def label_mismatch() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", labels={"zone": "a"}), node("gpu-02"))
    fleet.serve(model("qwen", node_selector={"zone": "b", "rack": "7"}))
    fleet.turn()
    fleet.change("gpu-02", labels={"zone": "b", "rack": "7"})
    fleet.turn()
    return fleet


def unknown_memory() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", memory_gb=None), node("gpu-02", memory_gb=64))
    fleet.bookings["gpu-02"] = [Booking(replica="stray-abc123", rank=0)]
    fleet.say("gpu-02 runs stray-abc123, which nobody can describe")
    fleet.serve(model("qwen", min_memory_gb=24, replicas=2))
    fleet.turn()
    fleet.change("gpu-01", liveness="lost")
    fleet.serve(model("llama", min_memory_gb=24))
    fleet.turn()
    return fleet


def old_agent_that_lists_nothing() -> Fleet:
    fleet = Fleet()
    fleet.join(Node(id="old-01", liveness="ready", since=0.0, inventory=Inventory()))
    fleet.serve(model("gemma", **LLAMA))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.join(node("new-01", features=("logs",), agent_version="0.9.0"))
    fleet.serve(model("more", **LLAMA, replicas=2, node_selector={"zone": "b"}))
    fleet.turn()
    return fleet


def settle_after_start() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1, liveness=None))
    fleet.serve(model("qwen", gpus=1))
    fleet.settled = False
    fleet.turn()
    fleet.change("gpu-02", liveness="ready")
    fleet.turn()
    fleet.settled = True
    fleet.say("the settling period is over")
    fleet.turn()
    return fleet


def model_left_the_catalog() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2), node("gpu-02", devices=2))
    fleet.serve(model("qwen", gpus=1))
    fleet.serve(model("llama", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.withdraw("qwen")
    fleet.serve(model("llama", profile_name="fast", gpus=1))
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def stale_roll() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2), node("gpu-02", devices=1))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.serve(model("kept", roll_when_stale=False))
    fleet.turn()
    fleet.all_ready()
    fleet.replicas["old-unknown"] = msgspec.structs.replace(
        fleet.replicas["kept-000001"], id="old-unknown", model="unprinted", fingerprint=None
    )
    fleet.serve(model("unprinted"))
    fleet.say("old-unknown runs unprinted, with no fingerprint: that is unknown, not stale")
    fleet.serve(model("qwen", gpus=1, replicas=2, context=8192))
    fleet.serve(model("kept", roll_when_stale=False, context=8192))
    for _ in range(4):
        fleet.turn()
        fleet.all_ready()
        fleet.all_stopped()
    fleet.turn()
    return fleet


def stale_roll_without_room() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("qwen", gpus=1, replicas=2, context=8192))
    for _ in range(4):
        fleet.turn()
        fleet.all_stopped()
        fleet.turn()
        fleet.all_ready()
    fleet.turn()
    return fleet


def lost_node_with_replica() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1, memory_gb=128), node("gpu-02", devices=1))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(10)
    fleet.change("gpu-01", liveness="unreachable")
    fleet.turn()
    fleet.wait(60)
    fleet.change("gpu-01", liveness="lost")
    fleet.turn()
    fleet.wait(60)
    fleet.change("gpu-01", liveness="ready")
    fleet.turn()
    return fleet


def superseded_replica_returns() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(10)
    fleet.change("gpu-01", liveness="lost")
    fleet.serve(model("qwen", gpus=1, context=8192))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.wait(60)
    fleet.change("gpu-01", liveness="ready")
    fleet.turn()
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def scale_down_after_a_node_was_away() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1), node("gpu-03", devices=1))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(10)
    fleet.change("gpu-01", liveness="lost")
    fleet.serve(model("qwen", gpus=1, replicas=3))
    fleet.turn()
    fleet.wait(5)
    fleet.all_ready()
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.wait(5)
    fleet.change("gpu-01", liveness="ready")
    fleet.turn()
    fleet.all_stopped()
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    return fleet


def drained_node() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.change("gpu-01", wish="draining")
    fleet.turn()
    fleet.join(node("gpu-02", devices=1))
    fleet.turn()
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def failures_back_off() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1))
    fleet.serve(model("qwen", gpus=1))
    for seconds in (4, 1, 9, 1):
        plan = fleet.turn()
        for step in plan.steps:
            fleet.state(step.replica, "failed", "out of memory: needs 82 GB")
        fleet.wait(seconds)
    fleet.turn()
    fleet.state("qwen-000003", "failed", "out of memory: needs 82 GB")
    fleet.turn()
    fleet.state("qwen-000004", "failed", "out of memory: needs 82 GB")
    fleet.turn()
    fleet.change("gpu-02", wish="cordoned")
    fleet.turn()
    fleet.wait(20)
    fleet.turn()
    return fleet


def stopped_cluster() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1))
    fleet.serve(model("llama", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.stop_cluster()
    fleet.turn()
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    fleet.stop_cluster(stopped=False)
    fleet.turn()
    return fleet


def stuck_replica() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.state("qwen-000001", STUCK, "requests wait and no token moves")
    fleet.turn()
    fleet.all_stopped()
    fleet.all_ready()
    fleet.turn()
    return fleet


def weights_and_disk() -> Fleet:
    fleet = Fleet()
    held = WeightsHeld(name=cache_name(SOURCE), size_bytes=250_000_000, complete=True)
    full = (Filesystem(mount="/", free_bytes=100_000_000, directories=("/var/lib/llmgw-weights",)),)
    fleet.join(
        node("a-full", inventory={"filesystems": full}),
        node("b-holds", inventory={"filesystems": full, "weights": (held,)}),
        node("c-empty"),
    )
    fleet.serve(model("gemma", **LLAMA))
    fleet.turn()
    fleet.serve(model("gemma", **LLAMA, replicas=3))
    fleet.turn()
    fleet.serve(model("gemma", **LLAMA, replicas=3, node_selector={"disk": "full"}))
    fleet.serve(model("big", engine="llamacpp", source=SOURCE, min_memory_gb=1, disk_gb=500))
    fleet.change("a-full", labels={"disk": "full"})
    fleet.turn()
    return fleet


def several_nodes() -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"gpu-0{n}", devices=8, memory_gb=512) for n in range(1, 5)))
    fleet.serve(model("huge", gpus=8, nodes=2))
    fleet.turn()

    def port(fabric: str, guid: str) -> Port:
        return Port(adapter="mlx5_0", number=1, state="4: ACTIVE", fabric=fabric, master_guid=guid)

    fleet.change_inventory("gpu-01", ports=(port("ib", "0xa"),))
    fleet.change_inventory("gpu-02", ports=(port("ib", "0xb"),))
    fleet.change_inventory("gpu-03", ports=(port("ib", "0xa"), port("ib", "0xc")))
    fleet.turn()
    fleet.change_inventory("gpu-04", ports=(port("ib", "0xa"),))
    (start,) = fleet.turn().steps
    assert isinstance(start, StartReplica)
    fleet.say(f"they meet at {start.shards[0].spec.rendezvous}")
    fleet.all_ready()
    huge = fleet.replicas["huge-000001"]
    first, second = huge.shards
    fleet.replicas["huge-000001"] = msgspec.structs.replace(
        huge,
        state="failed",
        reason="the worker ended",
        shards=(msgspec.structs.replace(first, state=READY),
                msgspec.structs.replace(second, state="failed")),
    )  # fmt: skip
    fleet.say("rank 1 of huge-000001 fails")
    fleet.turn()
    return fleet


SCRIPTS = (
    empty_fleet,
    one_cpu_node,
    port_that_is_down,
    slow_links_are_taken_last,
    eight_gpus,
    full_node,
    devices_that_are_not_given_out,
    driver_error_until_the_reset,
    foreign_process_comes_and_goes,
    installing_engine,
    label_mismatch,
    unknown_memory,
    old_agent_that_lists_nothing,
    settle_after_start,
    model_left_the_catalog,
    stale_roll,
    stale_roll_without_room,
    lost_node_with_replica,
    superseded_replica_returns,
    scale_down_after_a_node_was_away,
    drained_node,
    failures_back_off,
    stopped_cluster,
    stuck_replica,
    weights_and_disk,
    several_nodes,
)
