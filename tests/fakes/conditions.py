"""What recorded machines say of wear, faults, ports, sensors and probes, and how they were."""

import math

import msgspec

from llmgw.model.device import (
    Device,
    DeviceHealth,
    DeviceSample,
    NvlinkFabric,
    PciLink,
    Xid,
)
from llmgw.model.fabric import Port, PortCounter, SubnetManager
from llmgw.model.history import (
    DEVICE_MEASURES,
    NODE_MEASURES,
    NodeHistory,
    Series,
    device_values,
    node_values,
)
from llmgw.model.node import Node, NodeWarning, ProbeState, Sample, Sensor
from llmgw.model.work import work

GB = 10**9
MASTER = "0x506b4b0300aa1100"
ZEROS = "00000000-0000-0000-0000-000000000000"
STEP = 10.0


def worn(node: Node, now: float) -> Node:
    """Return a machine of cards with links, ports and warnings of its own."""
    found = node.inventory
    devices = tuple(_linked(device) for device in found.devices or ())
    warning = NodeWarning(
        subject="gpu7", words="PCIe: 8 of 16 lanes, 31 GB/s instead of 63 (lspci -vv)"
    )
    inventory = msgspec.structs.replace(
        found,
        host=found.host
        and msgspec.structs.replace(
            found.host, mem_bandwidth_gbs=412.0, mem_bandwidth_core_gbs=13.4
        ),
        devices=devices,
        ports=ports(),
        subnet_managers=(
            SubnetManager(
                guid=MASTER, lid=1, priority=14, state="master", adapter="mlx5_0/1",
                master_guid=MASTER,
            ),
            SubnetManager(
                guid="0x506b4b0300aa1140", lid=3, priority=5, state="standby", adapter="mlx5_0/1",
                master_guid=MASTER,
            ),
        ),
        warnings=(warning,),
    )  # fmt: skip
    words = f"{warning.subject}: {warning.words}"
    return msgspec.structs.replace(node, inventory=inventory, health=(*node.health, words))


def measured(sample: Sample, now: float) -> Sample:
    """Return a heartbeat of such a machine with all that it can tell."""
    beat = sample.heartbeat
    devices = tuple(
        msgspec.structs.replace(reading, **_more(index, reading))
        for index, reading in enumerate(beat.devices or ())
    )
    beat = msgspec.structs.replace(
        beat,
        devices=devices,
        ports=ports(),
        health=tuple(_health(f"{sample.id}-uuid-{card}", card, now) for card in range(8)),
        sensors=(
            Sensor(kind="temperature", label="CPU package 0", value=61.0),
            Sensor(kind="temperature", label="CPU package 1", value=58.0),
            Sensor(kind="temperature", label="board inlet"),
            Sensor(kind="power", label="CPU package 0", value=188.4),
            Sensor(kind="power", label="CPU package 1", value=171.9),
        ),
        probes=probes(),
    )
    return msgspec.structs.replace(sample, heartbeat=beat)


def probes() -> tuple[ProbeState, ...]:
    fine = {
        "memory": 5.0, "cpu": 5.0, "host": 60.0, "disks": 10.0, "cards": 5.0, "ports": 5.0,
        "subnet managers": 60.0, "sensors": 10.0, "kernel log": 60.0, "PCIe": 60.0,
    }  # fmt: skip
    return (
        *(ProbeState(name=name, age=2.0, period=period) for name, period in fine.items()),
        ProbeState(
            name="health", age=840.0, period=60.0, failing=815.0,
            error="nvidia-smi -q: no answer within 20 s",
        ),
        ProbeState(name="dcgm", period=10.0, error="http://127.0.0.1:9400: connection refused",
                   failing=259_200.0),
    )  # fmt: skip


def ports() -> tuple[Port, ...]:
    def port(adapter: int, *, up: bool = True, faults: tuple[PortCounter, ...] = ()) -> Port:
        return Port(
            adapter=f"mlx5_{adapter}",
            number=1,
            link_layer="InfiniBand",
            state="ACTIVE" if up else "DOWN",
            physical_state="LinkUp" if up else "Polling",
            rate=400 * GB if up else None,
            lid=40 + adapter if up else None,
            interface=f"ib{adapter}",
            master_guid=MASTER if up else None,
            counters=(PortCounter(name="port_xmit_data", value=10**15), *faults),
        )

    return (
        port(0),
        port(
            1,
            faults=(
                PortCounter(name="symbol_error", value=12, at_ceiling=False),
                PortCounter(name="link_downed", value=255, at_ceiling=True),
            ),
        ),
        port(2, up=False),
        Port(
            adapter="mlx5_bond_0", number=1, link_layer="Ethernet", state="ACTIVE",
            physical_state="LinkUp", rate=100 * GB, interface="bond0", network="10.20.0.0/16",
        ),
    )  # fmt: skip


def _linked(device: Device) -> Device:
    number = device.number or 0
    lanes = 8 if number == 7 else 16
    if device.unhealthy:
        return device
    return msgspec.structs.replace(
        device,
        pci=PciLink(max_generation=5, card_generation=5, lanes=lanes, max_lanes=16),
        nvlink=NvlinkFabric(
            state="Completed", status="Success", cluster_uuid=ZEROS, clique_id=0, health="Healthy"
        ),
    )


def _more(index: int, reading: DeviceSample) -> dict[str, object]:
    busy = (reading.busy_percent or 0.0) > 0
    active = 78.0 - index if busy else 0.0
    return {
        "power_limit_watts": 700.0,
        "sm_active_percent": active if index < 4 else None,
        "memory_temperature_celsius": 71.0 if busy else 36.0,
        "throttle_reasons": ("power cap",) if index == 1 else (),
    }


def _health(uuid: str, card: int, now: float) -> DeviceHealth:
    if card == 5:
        fallen = Xid(
            code=79, count=1, last_seen=now - 610, action="reboot",
            words="GPU has fallen off the bus", cleared=False,
        )  # fmt: skip
        return DeviceHealth(uuid=uuid, xids=(fallen,))
    xids: tuple[Xid, ...] = ()
    if card == 2:
        over = Xid(
            code=94, count=2, last_seen=now - 7200, action="restart_application",
            words="contained memory error", cleared=True,
        )  # fmt: skip
        xids = (over,)
    return DeviceHealth(
        uuid=uuid,
        ecc_corrected_volatile=3 if card == 2 else 0,
        ecc_uncorrected_volatile=0,
        ecc_corrected_aggregate=9 if card == 2 else 0,
        ecc_uncorrected_aggregate=1 if card == 2 else 0,
        remapped_corrected=0,
        remapped_uncorrected=1 if card == 2 else 0,
        remap_pending=False,
        remap_failed=False,
        nvlinks=18,
        nvlinks_down=2 if card == 6 else 0,
        nvlink_crc_errors=7 if card == 6 else 0,
        recovery_action="none",
        xids=xids,
    )


def cut(node: Node, sample: Sample) -> tuple[Node, Sample]:
    """Return a machine of four cards whose last is cut into two instances.

    Heat and power are the card's; of an instance only its memory is measured.
    """
    devices = list(node.inventory.devices or ())
    card = msgspec.structs.replace(devices[3], mig_enabled=True)
    instances = tuple(
        Device(
            uuid=f"MIG-{node.id}-{number}", kind="mig", number=1300 + number, card_uuid=card.uuid,
            name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            device_class=f"{card.device_class}-mig-3g.40gb",
            memory_bytes=42_400 * 10**6, mig_profile="3g.40gb", unhealthy=(),
        )
        for number in (1, 2)
    )  # fmt: skip
    inventory = msgspec.structs.replace(node.inventory, devices=(*devices[:3], card, *instances))
    beat = sample.heartbeat
    readings = [one for one in beat.devices or () if one.uuid != card.uuid]
    readings.append(
        DeviceSample(
            uuid=card.uuid, power_watts=181.0, power_limit_watts=400.0, temperature_celsius=47.0
        )
    )
    readings += [
        DeviceSample(
            uuid=one.uuid, memory_used_bytes=(31 if one is instances[0] else 1) * GB,
            memory_total_bytes=one.memory_bytes,
        )
        for one in instances
    ]  # fmt: skip
    return (
        msgspec.structs.replace(node, inventory=inventory),
        msgspec.structs.replace(
            sample, heartbeat=msgspec.structs.replace(beat, devices=tuple(readings))
        ),
    )


def past(sample: Sample | None, minutes: int, now: float) -> NodeHistory:
    """Return a past that leads to a heartbeat: waves, and a gap that was not measured."""
    minutes = min(minutes, 60)
    points = round(minutes * 60 / STEP)
    series: list[Series] = []
    beat = sample.heartbeat if sample else None
    if beat is not None:
        for measure, value in zip(NODE_MEASURES, node_values(beat), strict=True):
            values = _wave(value, points)
            series.append(Series(name=measure.name, unit=measure.unit, values=values))
    for reading in (beat.devices if beat else None) or ():
        for measure, value in zip(DEVICE_MEASURES, device_values(reading), strict=True):
            done = work(reading) if measure.name == "work" else None
            series.append(
                Series(
                    name=measure.name,
                    device=reading.uuid,
                    unit=measure.unit,
                    values=_wave(value, points),
                    made_of=None if done is None else (done.source,),
                )
            )
    until = sample.at if sample else now
    return NodeHistory(step=STEP, until=until, series=tuple(series), source="memory")


def _wave(value: float | None, points: int) -> tuple[float | None, ...]:
    if value is None:
        return (None,) * points
    return tuple(
        None
        if points - 150 < number < points - 120
        else round(value * (0.75 + 0.25 * math.cos((points - 1 - number) / 30)), 2)
        for number in range(points)
    )
