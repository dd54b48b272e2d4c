"""A moment of a fleet at which every family of metrics has a sample.

Two nodes: `gpu-01` has cards of two kinds, one of them cut into MIG instances, ports and an NVLink
domain; `cpu-01` has none of that.
"""

from llmgw.base.periodic import PassSeen
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.device import (
    GPU,
    MIG,
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NvlinkFabric,
    PciLink,
    Xid,
)
from llmgw.model.fabric import NvlinkDomain, Port, PortCounter, SubnetManager
from llmgw.model.gateway import (
    ChoiceCount,
    Endpoint,
    FallbackCount,
    Gateway,
    Histogram,
    LoadReport,
    ModelTraffic,
    RefusalCount,
    ReplicaLoad,
    ReplyCount,
    Route,
)
from llmgw.model.node import (
    Filesystem,
    Heartbeat,
    Host,
    Inventory,
    Node,
    ProbeState,
    Sample,
    Sensor,
    WeightsHeld,
)
from llmgw.model.replica import Replica
from llmgw.model.shard import ShardUse
from llmgw.plan.records import Booking, Candidate, NodeRoom, Plan, Refusal, Verdict
from tests.fakes.fleet_parts import GB, NOW

CARD = "GPU-00000000-0000-4000-8000-000000000000"
CUT = "GPU-00000000-0000-4000-8000-000000000001"
PART = "MIG-00000000-0000-4000-8000-000000000011"
SILENT = "GPU-00000000-0000-4000-8000-000000000002"
CLUSTER = "b2daed23-0000-0000-0000-000000000000"
MASTER = "0xb83fd20300aa0001"
STANDBY = "0xb83fd20300aa0002"
MODEL = "qwen3-32b"
REPLICA = "qwen3-32b-d4e5f6"


def whole_scrape() -> Snapshot:
    """Return the moment."""
    return Snapshot(
        now=NOW,
        cluster="lab",
        server="control-1",
        version="0.1.0",
        leader=True,
        settled=True,
        term=3,
        followers=2,
        agents=2,
        rooms=(_gpu_room(), NodeRoom(node=_node("cpu-01", Inventory()))),
        samples={
            "gpu-01": Sample(id="gpu-01", at=NOW - 2, heartbeat=_beat()),
            "cpu-01": Sample(id="cpu-01", at=NOW - 1, heartbeat=Heartbeat(sequence=9, cpus=4)),
        },
        replicas=(Replica(id=REPLICA, model=MODEL, state="ready"),),
        routes=(
            Route(
                model=MODEL,
                wanted=2,
                endpoints=(Endpoint(replica=REPLICA, host="10.0.0.9", port=7500),),
            ),
        ),
        gateways=(
            Gateway(
                id="gw-1",
                connected=True,
                workers=2,
                certificate_ends=NOW + 86_400,
                certificate_begins=NOW - 86_400,
            ),
        ),
        traffic=(_traffic(),),
        passes={"liveness": PassSeen(at=NOW - 1, sentence="ok", error=None), "new": None},
        plan=_plan(),
        models_of={REPLICA: MODEL},
        flaps={"gpu-01": {"mlx5_0/1": 3}},
        evictions={MODEL: 2},
        preemptions={MODEL: 1},
        unwritten={"events": True, "usage": False},
        queued={MODEL: 5},
        gateway_loads={
            "gw-1": LoadReport(
                gateway="gw-1",
                replicas=(ReplicaLoad(replica=REPLICA, in_flight=3, failed_at=1, score=4.5),),
                tells_failures=True,
            )
        },
        keys_over_quota=1,
    )


def _node(name: str, inventory: Inventory) -> Node:
    return Node(
        id=name,
        liveness="ready",
        connected=True,
        agent_version="0.1.0",
        health=("gpu2: fell off the bus",) if name == "gpu-01" else (),
        inventory=inventory,
        certificate_ends=NOW + 86_400,
        certificate_begins=NOW - 86_400,
    )


def _gpu_room() -> NodeRoom:
    booking = Booking(replica=REPLICA, rank=0, model=MODEL, devices=(CARD,), memory_bytes=9 * GB)
    return NodeRoom(node=_node("gpu-01", _inventory()), bookings=(booking,))


def _inventory() -> Inventory:
    return Inventory(
        host=Host(
            os="Debian GNU/Linux 12",
            kernel="6.1.0-31-amd64",
            architecture="x86_64",
            nvidia_driver="570.124.06",
            cuda_version="12.8",
            mem_bandwidth_gbs=312.5,
            mem_bandwidth_core_gbs=14.25,
        ),
        devices=(
            Device(
                uuid=CARD,
                kind=GPU,
                number=0,
                name="NVIDIA GB200",
                device_class="gb200-192g",
                mig_enabled=False,
                pci=PciLink(max_generation=5, card_generation=6, lanes=8, max_lanes=16),
                nvlink=NvlinkFabric(
                    state="Completed", status="Success", cluster_uuid=CLUSTER, clique_id=1
                ),
                unhealthy=(),
            ),
            Device(
                uuid=PART,
                kind=MIG,
                number=1101,
                name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                device_class="h100-80g-mig-1g.10gb",
                mig_profile="1g.10gb",
                card_uuid=CUT,
                unhealthy=(),
            ),
            Device(
                uuid=SILENT,
                kind=GPU,
                number=2,
                device_class="gb200-192g",
                unhealthy=("fell off the bus",),
            ),
        ),
        ports=(_port(),),
        subnet_managers=(
            SubnetManager(guid=MASTER, state="master", master_guid=MASTER),
            SubnetManager(guid=STANDBY, state="standby", master_guid=MASTER),
        ),
        nvlink_domain=NvlinkDomain(
            cluster_uuid=CLUSTER, clique_id=1, imex_running=True, imex_channels=("channel0",)
        ),
        weights=(
            WeightsHeld(name="a", size_bytes=20 * GB, shared=False, complete=True),
            WeightsHeld(name="b", size_bytes=65 * GB, shared=True, complete=True),
        ),
    )


def _port() -> Port:
    return Port(
        adapter="mlx5_0",
        number=1,
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate=400 * 10**9,
        master_guid=MASTER,
        counters=(
            PortCounter(name="port_rcv_data", value=230539874932483),
            PortCounter(name="link_downed", value=3),
        ),
    )


def _beat() -> Heartbeat:
    return Heartbeat(
        sequence=12,
        cpus=192,
        memory_bytes=2164 * GB,
        memory_available_bytes=1700 * GB,
        cpu_percent=14.5,
        load_average=22.4,
        devices=(
            DeviceSample(
                uuid=CARD,
                busy_percent=91.0,
                memory_used_bytes=71 * GB,
                memory_total_bytes=192 * GB,
                memory_bandwidth_percent=33.0,
                sm_clock_mhz=1980.0,
                power_watts=612.37,
                power_limit_watts=1000.0,
                temperature_celsius=64.0,
                memory_temperature_celsius=71.0,
                fan_percent=40.0,
                throttle_reasons=("power cap", "heat (software)"),
                ecc_corrected=2,
                ecc_uncorrected=0,
                pcie_replays=0,
                sm_active_percent=61.5,
                sm_occupancy_percent=33.25,
                tensor_active_percent=20.5,
                dram_active_percent=18.25,
                foreign=(ForeignProcess(pid=4711, command="python", memory_bytes=GB),),
                age=1.5,
            ),
            DeviceSample(
                uuid=CUT, power_watts=212.0, power_limit_watts=700.0, ecc_corrected=0, age=1.5
            ),
            DeviceSample(
                uuid=PART,
                memory_used_bytes=GB,
                memory_total_bytes=10 * GB,
                foreign=(),
                age=1.5,
            ),
        ),
        filesystems=(
            Filesystem(
                mount="/", type="ext4", shared=False, total_bytes=480 * GB, free_bytes=212 * GB
            ),
            Filesystem(
                mount="/data", type="nfs4", shared=True, total_bytes=88_000 * GB, free_bytes=GB
            ),
        ),
        shards=(
            ShardUse(
                replica=REPLICA,
                cpu_cores=5.25,
                memory_bytes=18 * GB,
                requests_running=3,
                requests_waiting=1,
                cache_used=0.625,
            ),
        ),
        ports=(_port(),),
        sensors=(
            Sensor(kind="temperature", label="Package id 0", value=55.0),
            Sensor(kind="power", label="package-0", value=211.5),
        ),
        probes=(
            ProbeState(name="gpus", age=1.5, period=5.0),
            ProbeState(name="fabric", age=90.0, error="no answer in 10 s", failing=60.0),
        ),
        health=(_health(),),
    )


def _health() -> DeviceHealth:
    return DeviceHealth(
        uuid=CARD,
        ecc_corrected_volatile=2,
        ecc_uncorrected_volatile=0,
        ecc_corrected_aggregate=31,
        ecc_uncorrected_aggregate=1,
        remapped_corrected=4,
        remapped_uncorrected=1,
        remap_pending=True,
        remap_failed=False,
        retired_corrected=0,
        retired_uncorrected=0,
        retire_pending=False,
        nvlinks=18,
        nvlinks_down=1,
        nvlink_replay_errors=5,
        nvlink_recovery_errors=2,
        nvlink_crc_errors=7,
        recovery_action="reset",
        xids=(
            Xid(code=63, count=2, last_seen=NOW - 600.5, action="reset", cleared=False),
            Xid(code=13, count=9, last_seen=NOW - 900, action="restart_application", cleared=True),
        ),
        age=31.0,
    )


def _traffic() -> ModelTraffic:
    return ModelTraffic(
        model=MODEL,
        replies=(ReplyCount(code=200, count=7), ReplyCount(code=503, count=1)),
        duration=Histogram(bounds=(0.1, 1.0, 10.0), counts=(1, 4, 7, 8), sum=12.5),
        first_token=Histogram(bounds=(0.1, 1.0, 10.0), counts=(4, 7, 7, 7), sum=1.25),
        inter_token=Histogram(bounds=(0.01, 0.1), counts=(2, 6, 6), sum=0.25),
        prompt_tokens=120,
        completion_tokens=340,
        retries=1,
        client_aborts=2,
        engine_aborts=0,
        in_flight=3,
        waited=Histogram(bounds=(0.1, 1.0, 10.0), counts=(1, 2, 2, 2), sum=0.75),
        refusals=(RefusalCount(code="queue_full", count=4),),
        errors=(RefusalCount(code="engine_timeout", count=2),),
        choices=(ChoiceCount(reason="prefix", count=6), ChoiceCount(reason="unknown", count=2)),
        fallbacks=(FallbackCount(to="small", reason="unreachable", count=1),),
    )


def _plan() -> Plan:
    verdict = Verdict(kind="never", rule="memory", words="4 GB of memory, needs 24")
    refusal = Refusal(
        model=MODEL,
        profile="default",
        candidates=(Candidate(node="cpu-01", verdict=verdict),),
        words="cpu-01: 4 GB of memory, needs 24",
    )
    return Plan(number=12, parent=11, refusals=(refusal,), sentence="nothing to do")
