"""A mixed fleet of any size: what each machine has and what it reads, the same at each call.

The TITAN X, P100 and GB10 cards are read from recorded output of `nvidia-smi` by the agent's own
parsers. There is no recording of an H100 or of MIG instances here yet: those records are written as
the agent would make them.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from llmgw.model.device import GPU, MIG, Device, DeviceSample, ForeignProcess
from llmgw.model.node import (
    FAILED,
    INSTALLED,
    INSTALLING,
    Filesystem,
    Heartbeat,
    Host,
    InstalledEngine,
    Inventory,
    NodeWarning,
    ProbeState,
    Sensor,
    WeightsHeld,
)
from llmgw_agent.parse import nvidia_smi
from llmgw_agent.parse.cards import devices, samples

GB = 10**9
BEATS = 4
"""Different heartbeats of one machine before the first is read again."""

_FIXTURES = Path(__file__).parents[1] / "fixtures" / "nvidia-smi-csv"
_GPU_PROBES = ("host", "memory", "cpu", "disks", "gpus", "shards")
_TITAN_FIELDS = (
    *("index", "uuid", "name", "temperature.gpu", "utilization.gpu"),
    *("memory.used", "memory.total"),
)
_INSTANCES = (("3g.40gb", 42), ("2g.20gb", 21), ("1g.10gb", 10), ("1g.10gb", 10))
"""Profile and gigabytes of each MIG instance of a card."""


@dataclass(frozen=True)
class Recording:
    """One machine."""

    node: str
    inventory: Inventory
    beats: tuple[Heartbeat, ...]
    """What it reads, one after the other and then from the beginning; numbers and times are new."""
    engines: tuple[InstalledEngine, ...] = ()
    weights: tuple[WeightsHeld, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


def recording(number: int) -> Recording:
    """Return machine `number`: of ten, three have no cards and one has faults."""
    return _KINDS[number % len(_KINDS)](number)


def fleet(count: int) -> Iterator[Recording]:
    """Yield that many machines."""
    return map(recording, range(count))


def _cpu(number: int) -> Recording:
    engine = InstalledEngine(
        engine="llamacpp", version="0.10434.0", state=INSTALLED, back_ends=("CPU", "Vulkan")
    )
    return _machine(f"cpu-{number:04d}", number, cpus=64, memory=512, engines=(engine,))


def _h100(number: int) -> Recording:
    name = f"h100-{number:04d}"
    cards = tuple(_card(name, card) for card in range(8))
    return _machine(name, number, cpus=192, memory=2164, devices=cards, engines=_vllm(INSTALLED))


def _sick(number: int) -> Recording:
    """One card is off the bus, one belongs to somebody else, one engine could not be installed."""
    name = f"h100-{number:04d}"
    cards = tuple(_card(name, card) for card in range(8))
    lost = msgspec.structs.replace(cards[5], unhealthy=("fell off the bus (XID 79)",))
    made = _machine(
        name,
        number,
        cpus=192,
        memory=2164,
        devices=(*cards[:5], lost, *cards[6:]),
        engines=_vllm(FAILED),
        warnings=(NodeWarning(subject="gpu", words="1 of 8 NVIDIA cards does not answer"),),
    )
    return replace(made, beats=tuple(map(_with_faults, made.beats)))


def _mig(number: int) -> Recording:
    """Four A100 with MIG on: the cards can't be given out, their instances can."""
    name = f"mig-{number:04d}"
    found = [device for card in range(4) for device in _instances(name, card)]
    engine = InstalledEngine(
        engine="vllm", version="0.11.0", state=INSTALLING, words="installing: 412 of 980 MB"
    )
    return _machine(name, number, cpus=128, memory=1031, devices=tuple(found), engines=(engine,))


def _titan(number: int) -> Recording:
    return _recorded("titan", "titanx-8-nounits.csv", _TITAN_FIELDS, number, cpus=32, memory=128)


def _pascal(number: int) -> Recording:
    return _recorded("p100", "p100-query.csv", (), number, cpus=20, memory=96)


def _spark(number: int) -> Recording:
    """Unified memory: the card has none of its own."""
    return _recorded("spark", "gb10-memory-na.csv", (), number, cpus=20, memory=128)


_KINDS: tuple[Callable[[int], Recording], ...] = (
    *(_cpu, _h100, _cpu, _mig, _h100, _titan, _cpu, _sick),
    *(_pascal, _spark),
)


def _recorded(
    kind: str, fixture: str, fields: tuple[str, ...], number: int, *, cpus: int, memory: int
) -> Recording:
    name = f"{kind}-{number:04d}"
    text = (_FIXTURES / fixture).read_text()
    seen = nvidia_smi.read_cards(text, fields) if fields else nvidia_smi.read_cards(text)
    # The tests' fleet has many of the one machine that was recorded.
    cards = tuple(
        msgspec.structs.replace(card, index=place, uuid=f"GPU-{name}-{place}")
        for place, card in enumerate(seen.cards)
    )
    made = _machine(name, number, cpus=cpus, memory=memory, devices=devices(cards))
    readings = samples(cards, frozenset(), 1.5)
    beats = tuple(msgspec.structs.replace(beat, devices=readings) for beat in made.beats)
    return replace(made, beats=beats)


def _vllm(state: str) -> tuple[InstalledEngine, ...]:
    words = "pip: no wheel for this Python" if state == FAILED else None
    return (
        InstalledEngine(
            engine="vllm", version="0.11.0", state=state, words=words, back_ends=("CUDA",)
        ),
        InstalledEngine(engine="sglang", version="0.5.3", state=INSTALLED, back_ends=("CUDA",)),
    )


def _card(name: str, number: int) -> Device:
    return Device(
        uuid=f"GPU-{name}-{number}",
        kind=GPU,
        number=number,
        name="NVIDIA H100 80GB HBM3",
        vendor="nvidia",
        device_class="h100-80g",
        memory_bytes=85_520 * 10**6,
        pci_address=f"00000000:{number + 24:02X}:00.0",
        numa_node=number // 4,
        compute_capability="9.0",
        nvlink_peers=tuple(f"GPU-{name}-{peer}" for peer in range(8) if peer != number),
        unhealthy=(),
    )


def _instances(name: str, card: int) -> Iterator[Device]:
    card_uuid = f"GPU-{name}-{card}"
    for number, (profile, gigabytes) in enumerate(_INSTANCES):
        yield Device(
            uuid=f"MIG-{name}-{card}-{number}",
            kind=MIG,
            number=1000 + 100 * card + number,
            name="NVIDIA A100-SXM4-80GB",
            vendor="nvidia",
            device_class=f"a100-80g-mig-{profile}",
            card_uuid=card_uuid,
            memory_bytes=gigabytes * GB,
            mig_profile=profile,
            gpu_instance=number + 1,
            compute_instance=0,
            unhealthy=(),
        )


def _machine(
    name: str,
    number: int,
    *,
    cpus: int,
    memory: int,
    devices: tuple[Device, ...] = (),
    engines: tuple[InstalledEngine, ...] = (),
    warnings: tuple[NodeWarning, ...] = (),
) -> Recording:
    host = Host(
        hostname=name,
        boot_id=f"boot-{name}",
        os="Ubuntu 22.04.5 LTS",
        kernel="5.15.0-131-generic",
        architecture="x86_64",
        cpu_model="Intel(R) Xeon(R) Platinum 8480C" if devices else "AMD EPYC 7763 64-Core",
        cpus=cpus,
        cpu_extensions=("avx2", "fma", "f16c"),
        memory_bytes=memory * GB,
        nvidia_driver="550.144.03" if devices else None,
        cuda_version="12.4" if devices else None,
    )
    rng = random.Random(number)
    beats = tuple(_beat(rng, cpus=cpus, memory=memory, devices=devices) for _ in range(BEATS))
    return Recording(
        node=name,
        inventory=Inventory(
            host=host, devices=devices, filesystems=beats[0].filesystems, warnings=warnings
        ),
        beats=beats,
        engines=engines,
        weights=(WeightsHeld(name=f"sha256-{number % 3}", size_bytes=16 * GB, complete=True),),
        labels={"rack": f"r{number // 16:02d}"},
    )


def _beat(rng: random.Random, *, cpus: int, memory: int, devices: tuple[Device, ...]) -> Heartbeat:
    probes = _GPU_PROBES if devices else tuple(p for p in _GPU_PROBES if p != "gpus")
    return Heartbeat(
        sequence=0,
        cpus=cpus,
        memory_bytes=memory * GB,
        memory_available_bytes=int(memory * GB * rng.uniform(0.3, 0.9)),
        cpu_percent=round(rng.uniform(1, 90), 1),
        load_average=round(rng.uniform(0.2, cpus), 2),
        devices=tuple(_reading(rng, device) for device in devices if not device.unhealthy),
        filesystems=_filesystems(rng),
        sensors=tuple(
            Sensor(kind="temperature", label=f"package {n}", value=round(rng.uniform(35, 75), 1))
            for n in range(2)
        ),
        probes=tuple(ProbeState(name=name, age=round(rng.uniform(0, 5), 1)) for name in probes),
    )


def _filesystems(rng: random.Random) -> tuple[Filesystem, ...]:
    local = Filesystem(
        mount="/",
        type="ext4",
        total_bytes=480 * GB,
        free_bytes=rng.randrange(20, 400) * GB,
        directories=("/var/lib/llmgw",),
    )
    shared = Filesystem(
        mount="/data",
        type="nfs4",
        shared=True,
        total_bytes=88_000 * GB,
        free_bytes=9_100 * GB,
        directories=("/data/weights",),
    )
    return local, shared


def _reading(rng: random.Random, device: Device) -> DeviceSample:
    total = device.memory_bytes or 0
    measured = device.kind == GPU
    return DeviceSample(
        uuid=device.uuid,
        # The driver measures neither for an instance.
        busy_percent=round(rng.uniform(0, 100), 1) if measured else None,
        power_watts=round(rng.uniform(70, 690), 1) if measured else None,
        memory_used_bytes=int(total * rng.uniform(0.02, 0.95)),
        memory_total_bytes=total,
        temperature_celsius=round(rng.uniform(28, 80)),
        sm_clock_mhz=1980.0 if measured else None,
        power_limit_watts=700.0 if measured else None,
        throttle_reasons=(),
        ecc_uncorrected=0,
        foreign=(),
        age=1.5,
    )


def _with_faults(beat: Heartbeat) -> Heartbeat:
    """Return a heartbeat with somebody else's process on a card and a tool that hangs."""
    foreign = ForeignProcess(pid=90210, command="python train.py", memory_bytes=61 * GB)
    first, *others = beat.devices or ()
    *probes, _ = beat.probes or ()
    silent = ProbeState(name="gpus", age=840.0, error="nvidia-smi: no end within 20 s")
    return msgspec.structs.replace(
        beat,
        devices=(msgspec.structs.replace(first, foreign=(foreign,)), *others),
        probes=(*probes, silent),
    )
