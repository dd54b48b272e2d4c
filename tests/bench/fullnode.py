"""A node of 8 GPUs that tells everything: the most that one node adds to a scrape."""

from llmgw.model.device import (
    GPU,
    Device,
    DeviceHealth,
    DeviceSample,
    NvlinkFabric,
    PciLink,
    Xid,
)
from llmgw.model.fabric import NvlinkDomain, Port, PortCounter, SubnetManager
from llmgw.model.node import Filesystem, Heartbeat, Host, Inventory, ProbeState, Sensor, WeightsHeld
from llmgw.model.shard import ShardUse

CARDS = 8
PORTS = 8
"""One a card, as such machines are built."""
GB = 10**9

_COUNTERS = tuple(
    line.strip()
    for line in """
    VL15_dropped
    excessive_buffer_overrun_errors
    link_downed
    link_error_recovery
    local_link_integrity_errors
    port_rcv_constraint_errors
    port_rcv_data
    port_rcv_errors
    port_rcv_packets
    port_rcv_remote_physical_errors
    port_rcv_switch_relay_errors
    port_xmit_constraint_errors
    port_xmit_data
    port_xmit_discards
    port_xmit_packets
    port_xmit_wait
    symbol_error
    """.strip().splitlines()
)
PROBES = 18
_MASTER = "0xb83fd20300aa0001"


def uuid(node: int, card: int) -> str:
    return f"GPU-{node:08x}-5a69-8e8e-cb7a-{card:012x}"


def full_inventory(node: int, ports: int) -> Inventory:
    return Inventory(
        host=Host(
            os="Ubuntu 22.04.5 LTS",
            kernel="5.15.0-131-generic",
            architecture="x86_64",
            nvidia_driver="570.124.06",
            cuda_version="12.8",
            cpus=192,
            memory_bytes=2164 * GB,
            mem_bandwidth_gbs=312.5,
            mem_bandwidth_core_gbs=14.25,
        ),
        devices=tuple(
            Device(
                uuid=uuid(node, card),
                kind=GPU,
                number=card,
                name="NVIDIA H100 80GB HBM3",
                device_class="h100-80g",
                memory_bytes=85_520 * 10**6,
                pci=PciLink(max_generation=5, card_generation=5, lanes=16, max_lanes=16),
                nvlink=NvlinkFabric(
                    state="Completed",
                    status="Success",
                    cluster_uuid="b2daed23-0000-0000-0000-000000000000",
                    clique_id=1,
                ),
                unhealthy=(),
            )
            for card in range(CARDS)
        ),
        ports=_ports(node, ports),
        subnet_managers=(SubnetManager(guid=_MASTER, state="master", master_guid=_MASTER),),
        nvlink_domain=NvlinkDomain(imex_running=True),
        weights=(WeightsHeld(name="a", size_bytes=140 * GB, complete=True),),
    )


def full_heartbeat(node: int, ports: int) -> Heartbeat:
    return Heartbeat(
        sequence=12345,
        cpus=192,
        memory_bytes=2164 * GB,
        memory_available_bytes=1700 * GB,
        cpu_percent=23.5,
        load_average=17.2,
        devices=tuple(_reading(node, card) for card in range(CARDS)),
        filesystems=tuple(
            Filesystem(
                mount=mount, type="xfs", shared=False, total_bytes=10**13, free_bytes=4 * 10**12
            )
            for mount in ("/", "/scratch")
        ),
        shards=tuple(
            ShardUse(
                replica=f"llama-8b-0000{number}",
                cpu_cores=3.5,
                memory_bytes=12 * GB,
                requests_running=12,
                requests_waiting=0,
            )
            for number in range(4)
        ),
        ports=_ports(node, ports),
        sensors=tuple(
            Sensor(kind=kind, label=f"package {number}", value=55.0 + number)
            for kind in ("temperature", "power")
            for number in range(2)
        ),
        probes=tuple(
            ProbeState(name=f"probe-{number}", age=1.25, period=5.0) for number in range(PROBES)
        ),
        health=tuple(_health(node, card) for card in range(CARDS)),
    )


def _ports(node: int, count: int) -> tuple[Port, ...]:
    return tuple(
        Port(
            adapter=f"mlx5_{number}",
            number=1,
            link_layer="InfiniBand",
            state="ACTIVE",
            physical_state="LinkUp",
            rate=400 * GB,
            master_guid=_MASTER,
            counters=tuple(
                PortCounter(name=name, value=230_539_874_932_483 // (place + 1) + node)
                for place, name in enumerate(_COUNTERS)
            ),
        )
        for number in range(count)
    )


def _reading(node: int, card: int) -> DeviceSample:
    return DeviceSample(
        uuid=uuid(node, card),
        busy_percent=91.0 - card,
        memory_used_bytes=71 * GB + node,
        memory_total_bytes=85_520 * 10**6,
        memory_bandwidth_percent=33.0,
        sm_clock_mhz=1980.0,
        power_watts=(61_237 + node) / 100,
        power_limit_watts=700.0,
        temperature_celsius=64.0,
        memory_temperature_celsius=71.0,
        throttle_reasons=("power cap",),
        ecc_corrected=0,
        ecc_uncorrected=0,
        pcie_replays=0,
        sm_active_percent=61.5,
        sm_occupancy_percent=33.25,
        tensor_active_percent=20.5,
        dram_active_percent=18.25,
        foreign=(),
        age=1.5,
    )


def _health(node: int, card: int) -> DeviceHealth:
    return DeviceHealth(
        uuid=uuid(node, card),
        ecc_corrected_volatile=0,
        ecc_uncorrected_volatile=0,
        ecc_corrected_aggregate=31,
        ecc_uncorrected_aggregate=0,
        remapped_corrected=4,
        remapped_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        nvlinks=18,
        nvlinks_down=0,
        nvlink_replay_errors=0,
        nvlink_recovery_errors=0,
        nvlink_crc_errors=0,
        recovery_action="none",
        xids=(Xid(code=13, count=9, last_seen=1.8e9, action="restart_application", cleared=True),),
        age=31.0,
    )
