"""Devices' readings. Busy is not work: it is the share of time in which any kernel ran."""

from collections.abc import Callable
from operator import attrgetter

from llmgw.control.metrics.family import COUNTER, Figures, NodeFamily
from llmgw.control.metrics.onenode import DEVICE, OneNode, first_of
from llmgw.control.metrics.text import labelled, shown
from llmgw.model.device import Device
from llmgw.model.node import READY
from llmgw.model.work import work

NOT_READ = "the device or its driver does not tell, or the reading is older than a minute"
NOT_OF_INSTANCES = NOT_READ + "; of MIG instances and of cards that are cut into them"
OF_INSTANCES = "; of a card that is cut into MIG instances, whose memory it is"
NO_PROFILING = "no profiling counters can be read on the node, or the reading is old"
NODE_GONE = "nothing was heard of the node for a minute"

_INFO = ("model", "class", "mig_profile", "card_uuid")


def _of(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)
    return lambda node: zip(node.reading_texts, map(value, node.reading_records), strict=True)


def _ratio(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)
    return lambda node: [
        (text, None if (percent := value(reading)) is None else percent / 100)
        for text, reading in node.readings
    ]


def _clock(node: OneNode) -> Figures:
    for text, reading in node.readings:
        yield text, None if reading.sm_clock_mhz is None else reading.sm_clock_mhz * 1e6


def _memory(name: str) -> Callable[[OneNode], Figures]:
    """Return a reader of devices' memory; that of a card that is cut is its instances'."""
    value = attrgetter(name)
    return lambda node: [
        (text, None if reading.uuid in node.cut else value(reading))
        for text, reading in node.readings
    ]


def _info(node: OneNode) -> Figures:
    return [(f"{text},{_described(device, node)}", 1) for text, device in node.devices]


def _described(device: Device, node: OneNode) -> str:
    # Nobody is given a card that is cut: it is no device of its class.
    name = None if device.uuid in node.cut else device.device_class
    said = (device.name, name, device.mig_profile, device.card_uuid)
    return labelled(_INFO, (text or "" for text in said))


def _missing(node: OneNode) -> Figures:
    if node.beat is None or node.room.node.liveness != READY:
        return
    there = {text for text, _ in node.readings}
    for text, _ in node.devices:
        if text not in there:
            yield text, 1


def _work(node: OneNode) -> Figures:
    for text, reading in node.readings:
        done = work(reading)
        if done is not None:
            yield f'{text},source="{done.source}"', done.ratio


def _throttled(node: OneNode) -> Figures:
    return first_of(
        (f'{text},reason="{shown(reason)}"', 1)
        for text, reading in node.readings
        for reason in reading.throttle_reasons or ()
    )


def _foreign_memory(node: OneNode) -> Figures:
    for text, reading in node.readings:
        if reading.foreign is not None:
            sizes = [process.memory_bytes for process in reading.foreign]
            known = [size for size in sizes if size is not None]
            yield text, sum(known) if len(known) == len(sizes) else None


def _foreign_count(node: OneNode) -> Figures:
    for text, reading in node.readings:
        yield text, None if reading.foreign is None else len(reading.foreign)


def _age(node: OneNode) -> Figures:
    for text, reading in node.readings:
        yield text, None if reading.age is None else reading.age + node.age


FAMILIES = (
    NodeFamily(
        name="llmgw_gpu_info",
        labels=(*DEVICE, *_INFO),
        unit="-",
        help="1; joins a device's uuid with what it is; class: empty for a card that is cut into "
        "MIG instances, which have classes of their own; card_uuid: the card of an instance.",
        absent=NODE_GONE,
        read=_info,
    ),
    NodeFamily(
        name="llmgw_gpu_sample_missing",
        labels=DEVICE,
        unit="1",
        help="1 for a device of a ready node that reports no reading.",
        absent="for a device that reports one",
        read=_missing,
    ),
    NodeFamily(
        name="llmgw_gpu_busy_ratio",
        labels=DEVICE,
        unit="0 to 1",
        help="Share of time in which any kernel ran; not a measure of work.",
        absent=NOT_OF_INSTANCES,
        read=_ratio("busy_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_work_ratio",
        labels=(*DEVICE, "source"),
        unit="0 to 1",
        help="Work of a device; source: sm_active, its active multiprocessors, or, where those "
        "can't be read, power, its draw against its limit.",
        absent="neither can be read, or the reading is older than a minute",
        read=_work,
    ),
    NodeFamily(
        name="llmgw_gpu_memory_bytes",
        labels=DEVICE,
        unit="bytes",
        help="Memory of a device.",
        absent=NOT_READ + OF_INSTANCES,
        read=_memory("memory_total_bytes"),
    ),
    NodeFamily(
        name="llmgw_gpu_memory_used_bytes",
        labels=DEVICE,
        unit="bytes",
        help="Memory of a device in use, by whomever.",
        absent=NOT_READ + OF_INSTANCES,
        read=_memory("memory_used_bytes"),
    ),
    NodeFamily(
        name="llmgw_gpu_memory_bandwidth_ratio",
        labels=DEVICE,
        unit="0 to 1",
        help="Share of time in which memory was read or written.",
        absent=NOT_OF_INSTANCES,
        read=_ratio("memory_bandwidth_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_foreign_memory_bytes",
        labels=DEVICE,
        unit="bytes",
        help="Memory of a device that processes hold which are none of llmgw's own engines.",
        absent="processes can't be listed, one of them does not tell, or the reading is old",
        read=_foreign_memory,
    ),
    NodeFamily(
        name="llmgw_gpu_foreign_processes",
        labels=DEVICE,
        unit="processes",
        help="Processes on a device that are none of llmgw's own engines.",
        absent="processes can't be listed, or the reading is older than a minute",
        read=_foreign_count,
    ),
    NodeFamily(
        name="llmgw_gpu_sm_clock_hertz",
        labels=DEVICE,
        unit="hertz",
        help="Clock of the multiprocessors.",
        absent=NOT_READ,
        read=_clock,
    ),
    NodeFamily(
        name="llmgw_gpu_power_watts",
        labels=DEVICE,
        unit="watts",
        help="Power that a device draws; of a card, also when it is cut into MIG instances.",
        absent=NOT_READ,
        read=_of("power_watts"),
    ),
    NodeFamily(
        name="llmgw_gpu_power_limit_watts",
        labels=DEVICE,
        unit="watts",
        help="Power that a device may draw.",
        absent=NOT_READ,
        read=_of("power_limit_watts"),
    ),
    NodeFamily(
        name="llmgw_gpu_temperature_celsius",
        labels=DEVICE,
        unit="degrees Celsius",
        help="Temperature of a device.",
        absent=NOT_READ,
        read=_of("temperature_celsius"),
    ),
    NodeFamily(
        name="llmgw_gpu_memory_temperature_celsius",
        labels=DEVICE,
        unit="degrees Celsius",
        help="Temperature of a device's memory.",
        absent=NOT_READ,
        read=_of("memory_temperature_celsius"),
    ),
    NodeFamily(
        name="llmgw_gpu_fan_ratio",
        labels=DEVICE,
        unit="0 to 1",
        help="Speed of a device's fan.",
        absent=NOT_READ,
        read=_ratio("fan_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_throttle_reason",
        labels=(*DEVICE, "reason"),
        unit="1",
        help="1 for each reason for which a device runs slower now.",
        absent="for a reason that does not hold; that nothing runs on it is no reason; and where "
        + NOT_READ,
        read=_throttled,
    ),
    NodeFamily(
        name="llmgw_gpu_pcie_replays_total",
        kind=COUNTER,
        labels=DEVICE,
        unit="replays",
        help="Transfers over PCIe that had to be repeated, since the driver was loaded.",
        absent=NOT_READ,
        read=_of("pcie_replays"),
    ),
    NodeFamily(
        name="llmgw_gpu_sm_active_percent",
        labels=DEVICE,
        unit="percent",
        help="Share of time in which a multiprocessor worked.",
        absent=NO_PROFILING,
        read=_of("sm_active_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_sm_occupancy_active_percent",
        labels=DEVICE,
        unit="percent",
        help="Share of the multiprocessors' places that were taken.",
        absent=NO_PROFILING,
        read=_of("sm_occupancy_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_tensor_active_percent",
        labels=DEVICE,
        unit="percent",
        help="Share of time in which the tensor cores worked.",
        absent=NO_PROFILING,
        read=_of("tensor_active_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_dram_active_percent",
        labels=DEVICE,
        unit="percent",
        help="Share of time in which the device's memory moved data.",
        absent=NO_PROFILING,
        read=_of("dram_active_percent"),
    ),
    NodeFamily(
        name="llmgw_gpu_reading_age_seconds",
        labels=DEVICE,
        unit="seconds",
        help="Age of a device's readings.",
        absent=NOT_READ,
        read=_age,
    ),
)
