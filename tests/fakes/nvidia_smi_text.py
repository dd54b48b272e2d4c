"""The report of `nvidia-smi -q`, made of that of `-q -x` where only the latter was recorded.

Both have the same sections in the same order; what differs are the names, and a few nestings.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator

NAMES = {
    "mig_mode": "MIG Mode",
    "current_mig": "Current",
    "pending_mig": "Pending",
    "mig_devices": "MIG Devices",
    "mig_device": "MIG Device",
    "gpu_instance_id": "GPU Instance ID",
    "compute_instance_id": "Compute Instance ID",
    "serial": "Serial Number",
    "uuid": "GPU UUID",
    "vbios_version": "VBIOS Version",
    "current_dm": "Current",
    "pending_dm": "Pending",
    "gpu_reset_status": "GPU Reset Status",
    "gpu_virtualization_mode": "GPU Virtualization Mode",
    "pci": "PCI",
    "pci_bus": "Bus",
    "pci_device": "Device",
    "pci_domain": "Domain",
    "pci_device_id": "Device Id",
    "pci_bus_id": "Bus Id",
    "pci_sub_system_id": "Sub System Id",
    "pci_gpu_link_info": "GPU Link Info",
    "pcie_gen": "PCIe Generation",
    "max_link_gen": "Max",
    "current_link_gen": "Current",
    "device_current_link_gen": "Device Current",
    "max_device_link_gen": "Device Max",
    "max_host_link_gen": "Host Max",
    "link_widths": "Link Width",
    "max_link_width": "Max",
    "current_link_width": "Current",
    "replay_counter": "Replays Since Reset",
    "replay_rollover_counter": "Replay Number Rollovers",
    "clocks_event_reason_gpu_idle": "Idle",
    "clocks_event_reason_applications_clocks_setting": "Applications Clocks Setting",
    "clocks_event_reason_sw_power_cap": "SW Power Cap",
    "clocks_event_reason_hw_slowdown": "HW Slowdown",
    "clocks_event_reason_hw_thermal_slowdown": "    HW Thermal Slowdown",
    "clocks_event_reason_hw_power_brake_slowdown": "    HW Power Brake Slowdown",
    "clocks_event_reason_sync_boost": "Sync Boost",
    "clocks_event_reason_sw_thermal_slowdown": "SW Thermal Slowdown",
    "clocks_event_reason_display_clocks_setting": "Display Clock Setting",
    "fb_memory_usage": "FB Memory Usage",
    "bar1_memory_usage": "BAR1 Memory Usage",
    "cc_protected_memory_usage": "Conf Compute Protected Memory Usage",
    "gpu_util": "Gpu",
    "memory_util": "Memory",
    "ecc_mode": "ECC Mode",
    "current_ecc": "Current",
    "pending_ecc": "Pending",
    "ecc_errors": "ECC Errors",
    "sram_correctable": "SRAM Correctable",
    "sram_uncorrectable": "SRAM Uncorrectable",
    "dram_correctable": "DRAM Correctable",
    "dram_uncorrectable": "DRAM Uncorrectable",
    "multiple_single_bit_retirement": "Single Bit ECC",
    "double_bit_retirement": "Double Bit ECC",
    "pending_blacklist": "Pending Page Blacklist",
    "gpu_temp": "GPU Current Temp",
    "memory_temp": "Memory Current Temp",
    "gpu_power_readings": "GPU Power Readings",
    "graphics_clock": "Graphics",
    "sm_clock": "SM",
    "mem_clock": "Memory",
    "video_clock": "Video",
}
"""What the text calls an element, where that is not its own name with capitals."""

LEFT_OUT = {"supported_clocks", "supported_gpu_target_temp", "pending_retirement"}
"""Elements that the text does not have."""

_COUNTS = {"multiple_single_bit_retirement", "double_bit_retirement"}
_WIDTH = 37


def report_of_xml(text: str) -> str:
    """Return the text for a recorded XML."""
    log = ET.fromstring(text)
    gpus = log.findall("gpu")
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line("Timestamp", log.findtext("timestamp"), 0),
        _line("Driver Version", log.findtext("driver_version"), 0),
        _line("CUDA Version", log.findtext("cuda_version"), 0),
        "",
        _line("Attached GPUs", str(len(gpus)), 0),
    ]
    for gpu in gpus:
        lines += [f"GPU {gpu.get('id')}", *_section(gpu, 1), ""]
    return "\n".join(lines)


def _section(above: ET.Element, depth: int) -> Iterator[str]:
    for one in above:
        if one.tag in LEFT_OUT:
            continue
        if one.tag in _COUNTS:
            yield _line(_name(one), one.findtext("retired_count"), depth)
        elif len(one):
            yield "    " * depth + _name(one)
            yield from _section(one, depth + 1)
        else:
            yield _line(_name(one), (one.text or "").strip() or "None", depth)


def _name(element: ET.Element) -> str:
    return NAMES.get(element.tag, element.tag.replace("_", " ").title())


def _line(name: str, value: str | None, depth: int) -> str:
    return f"{'    ' * depth + name:<{_WIDTH + 4}} : {value or 'N/A'}"
