"""Devices' readings. Busy is not work: it is the share of time in which any kernel ran."""

from collections.abc import Callable, Iterator

from llmgw.control.metrics.family import COUNTER, GAUGE, Family, Samples
from llmgw.control.metrics.snapshot import OLD_SECONDS, Snapshot
from llmgw.model.device import Device, DeviceSample

NOT_READ = "the device or its driver does not tell, or the reading is older than a minute"
NO_PROFILING = "no profiling counters can be read on the node"

_GPU = ("node", "gpu", "uuid")


def _numbers(seen: Snapshot) -> dict[str, str]:
    return {
        device.uuid: "" if device.number is None else str(device.number)
        for room in seen.rooms
        for device in room.node.inventory.devices or ()
    }


def _readings(seen: Snapshot) -> Iterator[tuple[tuple[str, str, str], DeviceSample]]:
    """Yield the readings that are not old: a heartbeat may carry one that is."""
    numbers = _numbers(seen)
    for sample in seen.fresh():
        beat_age = seen.now - sample.at
        for device in sample.heartbeat.devices or ():
            if beat_age + (device.age or 0.0) <= OLD_SECONDS:
                yield (sample.id, numbers.get(device.uuid, ""), device.uuid), device


def _of(
    value: Callable[[DeviceSample], float | None], scale: float = 1.0
) -> Callable[[Snapshot], Samples]:
    def read(seen: Snapshot) -> Samples:
        for labels, device in _readings(seen):
            found = value(device)
            yield labels, None if found is None else found * scale

    return read


def _info(seen: Snapshot) -> Samples:
    for room in seen.rooms:
        for device in room.node.inventory.devices or ():
            yield (room.node.id, *_described(device)), 1


def _described(device: Device) -> tuple[str, ...]:
    number = "" if device.number is None else str(device.number)
    return (
        number,
        device.uuid,
        device.name or "",
        device.device_class or "",
        device.mig_profile or "",
    )


def _throttled(seen: Snapshot) -> Samples:
    for labels, device in _readings(seen):
        for reason in device.throttle_reasons or ():
            yield (*labels, reason), 1


def _ecc(seen: Snapshot) -> Samples:
    for labels, device in _readings(seen):
        yield (*labels, "corrected"), device.ecc_corrected
        yield (*labels, "uncorrected"), device.ecc_uncorrected


def _age(seen: Snapshot) -> Samples:
    ages = {sample.id: seen.now - sample.at for sample in seen.samples}
    for labels, device in _readings(seen):
        yield labels, None if device.age is None else device.age + ages[labels[0]]


FAMILIES = (
    Family(
        "llmgw_gpu_info",
        GAUGE,
        ("node", "gpu", "uuid", "model", "class", "mig_profile"),
        "-",
        "1; joins a device's uuid with what it is.",
        absent="never",
        read=_info,
    ),
    Family(
        "llmgw_gpu_busy_ratio",
        GAUGE,
        _GPU,
        "0 to 1",
        "Share of time in which any kernel ran; not a measure of work.",
        absent=NOT_READ,
        read=_of(lambda one: one.busy_percent, 0.01),
    ),
    Family(
        "llmgw_gpu_memory_bytes",
        GAUGE,
        _GPU,
        "bytes",
        "Memory of a device.",
        absent=NOT_READ,
        read=_of(lambda one: one.memory_total_bytes),
    ),
    Family(
        "llmgw_gpu_memory_used_bytes",
        GAUGE,
        _GPU,
        "bytes",
        "Memory of a device in use, by whomever.",
        absent=NOT_READ,
        read=_of(lambda one: one.memory_used_bytes),
    ),
    Family(
        "llmgw_gpu_memory_bandwidth_ratio",
        GAUGE,
        _GPU,
        "0 to 1",
        "Share of time in which memory was read or written.",
        absent=NOT_READ,
        read=_of(lambda one: one.memory_bandwidth_percent, 0.01),
    ),
    Family(
        "llmgw_gpu_sm_clock_hertz",
        GAUGE,
        _GPU,
        "hertz",
        "Clock of the multiprocessors.",
        absent=NOT_READ,
        read=_of(lambda one: one.sm_clock_mhz, 1e6),
    ),
    Family(
        "llmgw_gpu_power_watts",
        GAUGE,
        _GPU,
        "watts",
        "Power that a device draws.",
        absent=NOT_READ,
        read=_of(lambda one: one.power_watts),
    ),
    Family(
        "llmgw_gpu_power_limit_watts",
        GAUGE,
        _GPU,
        "watts",
        "Power that a device may draw.",
        absent=NOT_READ,
        read=_of(lambda one: one.power_limit_watts),
    ),
    Family(
        "llmgw_gpu_temperature_celsius",
        GAUGE,
        _GPU,
        "degrees Celsius",
        "Temperature of a device.",
        absent=NOT_READ,
        read=_of(lambda one: one.temperature_celsius),
    ),
    Family(
        "llmgw_gpu_memory_temperature_celsius",
        GAUGE,
        _GPU,
        "degrees Celsius",
        "Temperature of a device's memory.",
        absent=NOT_READ,
        read=_of(lambda one: one.memory_temperature_celsius),
    ),
    Family(
        "llmgw_gpu_fan_ratio",
        GAUGE,
        _GPU,
        "0 to 1",
        "Speed of a device's fan.",
        absent=NOT_READ,
        read=_of(lambda one: one.fan_percent, 0.01),
    ),
    Family(
        "llmgw_gpu_throttle_reason",
        GAUGE,
        (*_GPU, "reason"),
        "1",
        "1 for each reason for which a device runs slower now.",
        absent="for a reason that does not hold",
        read=_throttled,
    ),
    Family(
        "llmgw_gpu_ecc_errors_total",
        COUNTER,
        (*_GPU, "kind"),
        "errors",
        "Memory errors since the driver was loaded; kind: corrected or uncorrected.",
        absent=NOT_READ,
        read=_ecc,
    ),
    Family(
        "llmgw_gpu_pcie_replays_total",
        COUNTER,
        _GPU,
        "replays",
        "Transfers over PCIe that had to be repeated.",
        absent=NOT_READ,
        read=_of(lambda one: one.pcie_replays),
    ),
    Family(
        "llmgw_gpu_sm_active_percent",
        GAUGE,
        _GPU,
        "percent",
        "Share of time in which a multiprocessor worked.",
        absent=NO_PROFILING,
        read=_of(lambda one: one.sm_active_percent),
    ),
    Family(
        "llmgw_gpu_sm_occupancy_active_percent",
        GAUGE,
        _GPU,
        "percent",
        "Share of the multiprocessors' places that were taken.",
        absent=NO_PROFILING,
        read=_of(lambda one: one.sm_occupancy_percent),
    ),
    Family(
        "llmgw_gpu_tensor_active_percent",
        GAUGE,
        _GPU,
        "percent",
        "Share of time in which the tensor cores worked.",
        absent=NO_PROFILING,
        read=_of(lambda one: one.tensor_active_percent),
    ),
    Family(
        "llmgw_gpu_dram_active_percent",
        GAUGE,
        _GPU,
        "percent",
        "Share of time in which the device's memory moved data.",
        absent=NO_PROFILING,
        read=_of(lambda one: one.dram_active_percent),
    ),
    Family(
        "llmgw_gpu_reading_age_seconds",
        GAUGE,
        _GPU,
        "seconds",
        "Age of the readings above.",
        absent=NOT_READ,
        read=_age,
    ),
)
