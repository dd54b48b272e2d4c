"""What a heartbeat costs to encode and decode: protobuf's C runtime beside betterproto2.

    python -m tests.bench.heartbeat [--json]

Times are CPU milliseconds of this process for a node with 8 GPUs, medians; what counts are the
ratios, which hardly depend on the machine.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.link import AgentMessage
from llmgw.model.node import Filesystem, Heartbeat, ProbeState, Sensor
from llmgw.model.shard import ShardUse
from llmgw_proto import convert, fast
from llmgw_proto.wire.llmgw import v1


def sample(number: int) -> DeviceSample:
    """Return the readings of a busy GPU."""
    return DeviceSample(
        uuid=f"GPU-{number:08x}-0000-4000-8000-000000000000",
        busy_percent=98.0,
        memory_used_bytes=71_000_000_000,
        memory_total_bytes=85_899_345_920,
        memory_bandwidth_percent=61.0,
        sm_clock_mhz=1980.0,
        power_watts=611.25,
        power_limit_watts=700.0,
        temperature_celsius=64.0,
        memory_temperature_celsius=81.0,
        throttle_reasons=("sw_power_cap",),
        ecc_corrected=0,
        ecc_uncorrected=0,
        pcie_replays=0,
        sm_active_percent=91.5,
        sm_occupancy_percent=44.0,
        tensor_active_percent=38.25,
        dram_active_percent=57.0,
        foreign=(ForeignProcess(pid=4711, command="python", memory_bytes=500_000_000),),
        age=1.5,
    )


def heartbeat() -> AgentMessage:
    """Return the heartbeat of a node with 8 GPUs, 2 filesystems and 4 engines."""
    uses = tuple(
        ShardUse(
            replica=f"llama-8b-0000{number}",
            cpu_cores=3.5,
            memory_bytes=12_000_000_000,
            requests_running=12,
            requests_waiting=0,
        )
        for number in range(4)
    )
    return AgentMessage(
        heartbeat=Heartbeat(
            sequence=12345,
            sent=1_800_000_000.25,
            cpus=128,
            memory_bytes=2_000_000_000_000,
            memory_available_bytes=1_500_000_000_000,
            cpu_percent=23.5,
            load_average=17.2,
            devices=tuple(sample(number) for number in range(8)),
            filesystems=tuple(
                Filesystem(mount=mount, type="xfs", total_bytes=10**13, free_bytes=4 * 10**12)
                for mount in ("/", "/scratch")
            ),
            shards=uses,
            sensors=tuple(
                Sensor(kind="temperature", label=f"package {n}", value=55.0) for n in range(2)
            ),
            probes=tuple(ProbeState(name=name, age=1.0) for name in ("nvml", "disks", "cpu")),
        )
    )


def cost(work: Callable[[], object], rounds: int = 15, repeat: int = 100) -> float:
    """Return the median CPU milliseconds of one call."""
    work()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(repeat):
            work()
        times.append((time.process_time() - began) / repeat)
    return 1000 * statistics.median(times)


def measure() -> dict[str, float]:
    """Measure both ways of both kinds of message, conversion from and to records included."""
    record = heartbeat()
    data = convert.to_fast(record).SerializeToString()
    kind = fast.message_class("AgentMessage")
    upb_encode = cost(lambda: convert.to_fast(record).SerializeToString())
    upb_decode = cost(lambda: convert.to_record(kind.FromString(data), AgentMessage))
    b2_encode = cost(lambda: bytes(convert.to_wire(record)), repeat=20)
    b2_decode = cost(
        lambda: convert.to_record(v1.AgentMessage.parse(data), AgentMessage), repeat=20
    )
    return {
        "bytes": float(len(data)),
        "upb_encode_ms": upb_encode,
        "upb_decode_ms": upb_decode,
        "betterproto2_encode_ms": b2_encode,
        "betterproto2_decode_ms": b2_decode,
        "encode_ratio": b2_encode / upb_encode,
        "decode_ratio": b2_decode / upb_decode,
    }


def main() -> int:
    """Print the costs."""
    flags = argparse.ArgumentParser(description="what a heartbeat costs to encode and decode")
    flags.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = flags.parse_args().json
    result = measure()
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return 0
    for name, value in result.items():
        sys.stdout.write(f"{name:24} {value:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
