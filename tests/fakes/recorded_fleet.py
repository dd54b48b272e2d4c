"""A mixed fleet of any size: what each machine has and what it reads, the same at each call.

The cards are read from recorded output of `nvidia-smi` by the agent's own parsers. What their
heartbeats measure is made up where there has to be more than one of them.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import msgspec

from llmgw.model.device import GPU, Device, DeviceSample, ForeignProcess
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
from llmgw_agent.parse.card_devices import devices, samples
from llmgw_agent.parse.cards import Card
from llmgw_agent.parse.nvidia_smi_table import read_table
from llmgw_agent.parse.nvidia_smi_xml import read_report

GB = 10**9
BEATS = 4
"""Different heartbeats of one machine before the first is read again."""

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_GPU_PROBES = ("host", "memory", "cpu", "disks", "gpus", "shards")
_TITAN_FIELDS = (
    *("index", "uuid", "name", "temperature.gpu", "utilization.gpu"),
    *("memory.used", "memory.total"),
)
_MIG_PROFILE = "1g.20gb"
"""Of the instances of the recorded card, whose report does not name it."""


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
    return _machine(
        name, number, cpus=192, memory=2164, devices=_h100s(name), engines=_vllm(INSTALLED)
    )


def _sick(number: int) -> Recording:
    """One card is off the bus, one belongs to somebody else, one engine could not be installed."""
    name = f"h100-{number:04d}"
    cards = _h100s(name)
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
    (card,) = read_report(_text("nvidia-smi-q-x/a100-80g-mig-4x1g20gb.xml")).cards
    found = devices(tuple(_cut(card, name, place) for place in range(4)))
    engine = InstalledEngine(
        engine="vllm", version="0.11.0", state=INSTALLING, words="installing: 412 of 980 MB"
    )
    return _machine(name, number, cpus=128, memory=1031, devices=found, engines=(engine,))


def _cut(card: Card, name: str, place: int) -> Card:
    """Return the recorded card as one of several; UUIDs and profiles are not in its report."""
    return msgspec.structs.replace(
        card,
        index=place,
        uuid=f"GPU-{name}-{place}",
        pci_address=f"00000000:{place + 1:02X}:00.0",
        instances=tuple(
            msgspec.structs.replace(
                one, uuid=f"MIG-{name}-{place}-{one.index}", profile=_MIG_PROFILE
            )
            for one in card.instances or ()
        ),
    )


def _titan(number: int) -> Recording:
    return _recorded(
        "titan", "nvidia-smi-csv/titanx-8-nounits.csv", _TITAN_FIELDS, number, cpus=32, memory=128
    )


def _pascal(number: int) -> Recording:
    return _recorded("p100", "nvidia-smi-csv/p100-query.csv", (), number, cpus=20, memory=96)


def _spark(number: int) -> Recording:
    """Unified memory: the card has none of its own."""
    return _recorded("spark", "nvidia-smi-csv/gb10-memory-na.csv", (), number, cpus=20, memory=128)


_KINDS: tuple[Callable[[int], Recording], ...] = (
    *(_cpu, _h100, _cpu, _mig, _h100, _titan, _cpu, _sick),
    *(_pascal, _spark),
)


def _recorded(
    kind: str, fixture: str, fields: tuple[str, ...], number: int, *, cpus: int, memory: int
) -> Recording:
    name = f"{kind}-{number:04d}"
    text = _text(fixture)
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


def _h100s(name: str) -> tuple[Device, ...]:
    """Return the eight recorded H100; what no table tells is as on an HGX board."""
    uuids = tuple(f"GPU-{name}-{place}" for place in range(8))
    cards = tuple(
        msgspec.structs.replace(
            card,
            uuid=uuid,
            compute_capability="9.0",
            numa_node=place // 4,
            nvlink_peers=tuple(peer for peer in uuids if peer != uuid),
        )
        for place, (card, uuid) in enumerate(
            zip(read_table(_text("nvidia-smi-table/8x-550.txt")).cards, uuids, strict=True)
        )
    )
    return devices(cards)


@cache
def _text(fixture: str) -> str:
    return (_FIXTURES / fixture).read_text()


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
    memory = DeviceSample(
        uuid=device.uuid,
        memory_used_bytes=int(total * rng.uniform(0.02, 0.95)),
        memory_total_bytes=total,
        foreign=(),
        age=1.5,
    )
    if device.kind != GPU:
        return memory  # nothing else is measured of an instance
    return msgspec.structs.replace(
        memory,
        busy_percent=None if device.mig_enabled else round(rng.uniform(0, 100), 1),
        power_watts=round(rng.uniform(70, 690), 1),
        temperature_celsius=round(rng.uniform(28, 80)),
        sm_clock_mhz=1980.0,
        power_limit_watts=700.0,
        throttle_reasons=(),
        ecc_uncorrected=0,
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
