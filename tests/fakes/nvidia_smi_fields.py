"""What `nvidia-smi --query-gpu` answers of a card of which a whole report was recorded.

Fields are read off the report of `nvidia-smi -q` (sections as paths) or of `-q -x` (elements).
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

NOT_THERE = "[N/A]"

ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "retired_pages.sbe": "retired_pages.single_bit_ecc.count",
    "retired_pages.dbe": "retired_pages.double_bit.count",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.applications.mem": "clocks.applications.memory",
}
"""Fields that have two names; the tool heads their column with the second one."""

_UNITS = (
    (re.compile(r"memory\.|used_(gpu_)?memory"), "MiB"),
    (re.compile(r"utilization\.|fan\.speed"), "%"),
    (re.compile(r"(enforced\.)?power\.(?!management)"), "W"),
    (re.compile(r"clocks\."), "MHz"),
)


def unit_of(field: str) -> str:
    """Return the unit that stands in a column's head; empty when there is none."""
    return next((unit for pattern, unit in _UNITS if pattern.match(field)), "")


_PCI_LINK = ("PCI/GPU Link Info/PCIe Generation", "pci/pci_gpu_link_info/pcie_gen")
_PCI_WIDTH = ("PCI/GPU Link Info/Link Width", "pci/pci_gpu_link_info/link_widths")
_POWER = "gpu_power_readings"

PATHS: dict[str, tuple[str, ...]] = {
    "name": ("Product Name", "product_name"),
    "serial": ("Serial Number", "serial"),
    "uuid": ("GPU UUID", "uuid"),
    "vbios_version": ("VBIOS Version", "vbios_version"),
    "addressing_mode": ("Addressing Mode", "addressing_mode"),
    "persistence_mode": ("Persistence Mode", "persistence_mode"),
    "pstate": ("Performance State", "performance_state"),
    "compute_mode": ("Compute Mode", "compute_mode"),
    "fan.speed": ("Fan Speed", "fan_speed"),
    "pci.bus_id": ("PCI/Bus Id", "pci/pci_bus_id"),
    "pci.domain": ("PCI/Domain", "pci/pci_domain"),
    "pci.bus": ("PCI/Bus", "pci/pci_bus"),
    "pci.device": ("PCI/Device", "pci/pci_device"),
    "pci.device_id": ("PCI/Device Id", "pci/pci_device_id"),
    "pci.sub_device_id": ("PCI/Sub System Id", "pci/pci_sub_system_id"),
    "pcie.link.gen.max": (f"{_PCI_LINK[0]}/Max", f"{_PCI_LINK[1]}/max_link_gen"),
    "pcie.link.gen.current": (f"{_PCI_LINK[0]}/Current", f"{_PCI_LINK[1]}/current_link_gen"),
    "pcie.link.gen.gpucurrent": (
        f"{_PCI_LINK[0]}/Device Current",
        f"{_PCI_LINK[1]}/device_current_link_gen",
    ),
    "pcie.link.gen.gpumax": (f"{_PCI_LINK[0]}/Device Max", f"{_PCI_LINK[1]}/max_device_link_gen"),
    "pcie.link.gen.hostmax": (f"{_PCI_LINK[0]}/Host Max", f"{_PCI_LINK[1]}/max_host_link_gen"),
    "pcie.link.width.max": (f"{_PCI_WIDTH[0]}/Max", f"{_PCI_WIDTH[1]}/max_link_width"),
    "pcie.link.width.current": (f"{_PCI_WIDTH[0]}/Current", f"{_PCI_WIDTH[1]}/current_link_width"),
    "memory.total": ("FB Memory Usage/Total", "fb_memory_usage/total"),
    "memory.reserved": ("FB Memory Usage/Reserved", "fb_memory_usage/reserved"),
    "memory.used": ("FB Memory Usage/Used", "fb_memory_usage/used"),
    "memory.free": ("FB Memory Usage/Free", "fb_memory_usage/free"),
    "utilization.gpu": ("Utilization/Gpu", "utilization/gpu_util"),
    "utilization.memory": ("Utilization/Memory", "utilization/memory_util"),
    "ecc.mode.current": ("ECC Mode/Current", "ecc_mode/current_ecc"),
    "ecc.mode.pending": ("ECC Mode/Pending", "ecc_mode/pending_ecc"),
    "mig.mode.current": ("MIG Mode/Current", "mig_mode/current_mig"),
    "mig.mode.pending": ("MIG Mode/Pending", "mig_mode/pending_mig"),
    "temperature.gpu": ("Temperature/GPU Current Temp", "temperature/gpu_temp"),
    "temperature.memory": ("Temperature/Memory Current Temp", "temperature/memory_temp"),
    "power.draw": (
        *("GPU Power Readings/Power Draw", "Power Readings/Power Draw"),
        *("GPU Power Readings/Instantaneous Power Draw", f"{_POWER}/power_draw"),
        *("power_readings/power_draw", f"{_POWER}/instant_power_draw"),
    ),
    "power.draw.instant": (
        *("GPU Power Readings/Instantaneous Power Draw", f"{_POWER}/instant_power_draw"),
        *("GPU Power Readings/Power Draw", f"{_POWER}/power_draw"),
    ),
    "power.draw.average": (
        *("GPU Power Readings/Average Power Draw", f"{_POWER}/average_power_draw"),
        *("GPU Power Readings/Power Draw", f"{_POWER}/power_draw"),
    ),
    "enforced.power.limit": (
        *("GPU Power Readings/Current Power Limit", "Power Readings/Enforced Power Limit"),
        *(f"{_POWER}/current_power_limit", "power_readings/enforced_power_limit"),
    ),
    "power.limit": (
        *("GPU Power Readings/Requested Power Limit", "Power Readings/Power Limit"),
        *(f"{_POWER}/requested_power_limit", "power_readings/power_limit"),
    ),
    "power.default_limit": (
        *("GPU Power Readings/Default Power Limit", "Power Readings/Default Power Limit"),
        *(f"{_POWER}/default_power_limit", "power_readings/default_power_limit"),
    ),
    "power.min_limit": (
        *("GPU Power Readings/Min Power Limit", "Power Readings/Min Power Limit"),
        *(f"{_POWER}/min_power_limit", "power_readings/min_power_limit"),
    ),
    "power.max_limit": (
        *("GPU Power Readings/Max Power Limit", "Power Readings/Max Power Limit"),
        *(f"{_POWER}/max_power_limit", "power_readings/max_power_limit"),
    ),
    "clocks.current.graphics": ("Clocks/Graphics", "clocks/graphics_clock"),
    "clocks.current.sm": ("Clocks/SM", "clocks/sm_clock"),
    "clocks.current.memory": ("Clocks/Memory", "clocks/mem_clock"),
    "clocks.current.video": ("Clocks/Video", "clocks/video_clock"),
    "clocks.max.graphics": ("Max Clocks/Graphics", "max_clocks/graphics_clock"),
    "clocks.max.sm": ("Max Clocks/SM", "max_clocks/sm_clock"),
    "clocks.max.memory": ("Max Clocks/Memory", "max_clocks/mem_clock"),
    "clocks.applications.graphics": (
        *("Applications Clocks/Graphics", "applications_clocks/graphics_clock"),
    ),
    "clocks.applications.memory": (
        *("Applications Clocks/Memory", "applications_clocks/mem_clock"),
    ),
    "retired_pages.single_bit_ecc.count": (
        "Retired Pages/Single Bit ECC",
        "retired_pages/multiple_single_bit_retirement/retired_count",
    ),
    "retired_pages.double_bit.count": (
        "Retired Pages/Double Bit ECC",
        "retired_pages/double_bit_retirement/retired_count",
    ),
    "retired_pages.pending": (
        "Retired Pages/Pending Page Blacklist",
        "retired_pages/pending_blacklist",
    ),
    "remapped_rows.correctable": (
        *("Remapped Rows/Correctable Error", "remapped_rows/remapped_row_corr"),
    ),
    "remapped_rows.uncorrectable": (
        *("Remapped Rows/Uncorrectable Error", "remapped_rows/remapped_row_unc"),
    ),
    "remapped_rows.pending": ("Remapped Rows/Pending", "remapped_rows/remapped_row_pending"),
    "remapped_rows.failure": (
        *("Remapped Rows/Remapping Failure Occurred", "remapped_rows/remapped_row_failure"),
    ),
    "fabric.state": ("Fabric/State", "fabric/state"),
    "fabric.status": ("Fabric/Status", "fabric/status"),
}

REASONS = (
    (0x1, "gpu_idle", "Idle"),
    (0x2, "applications_clocks_setting", "Applications Clocks Setting"),
    (0x4, "sw_power_cap", "SW Power Cap"),
    (0x8, "hw_slowdown", "HW Slowdown"),
    (0x10, "sync_boost", "Sync Boost"),
    (0x20, "sw_thermal_slowdown", "SW Thermal Slowdown"),
    (0x40, "hw_thermal_slowdown", "HW Slowdown/HW Thermal Slowdown"),
    (0x80, "hw_power_brake_slowdown", "HW Slowdown/HW Power Brake Slowdown"),
    (0x100, "display_clocks_setting", "Display Clock Setting"),
)
"""NVML's bits of them, what a field and an element end with, and what the report calls them."""

_CAPABILITIES = {
    "A10": "8.6",
    "A100": "8.0",
    "A10G": "8.6",
    "B200": "10.0",
    "GB200": "10.0",
    "GH200": "9.0",
    "H100": "9.0",
    "H200": "9.0",
    "RTX 4090": "8.9",
    "T4": "7.5",
    "V100": "7.0",
}
"""The report does not hold them; NVIDIA's table of them does."""


_ECC = re.compile(
    r"ecc\.errors\.(?P<kind>corrected|uncorrected)\."
    r"(?P<span>volatile|aggregate)\.(?P<where>total|dram|sram)"
)
_REASON = re.compile(r"clocks_(?:throttle|event)_reasons\.(?P<which>[a-z_]+)")


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a recorded report: its number, and every value by its path."""

    index: int
    values: Mapping[str, str]
    driver: str
    count: int

    def at(self, *paths: str) -> str:
        """Return the first value that is there."""
        return next((self.values[p] for p in paths if p in self.values), NOT_THERE)

    def answer(self, field: str) -> str | None:
        """Return what the tool prints for a field; None when it does not know the field."""
        field = ALIASES.get(field, field)
        if field in PATHS:
            return _printed(field, self.at(*PATHS[field]))
        of_all = {
            "index": str(self.index),
            "count": str(self.count),
            "driver_version": self.driver,
            "timestamp": "2024/07/31 11:22:39.000",
            "compute_cap": self._capability(),
        }
        if field in of_all:
            return of_all[field]
        if match := _ECC.fullmatch(field):
            return self._ecc(match["kind"], match["span"], match["where"])
        if match := _REASON.fullmatch(field):
            return self._reason(match["which"])
        return None

    def _capability(self) -> str:
        name = self.at("Product Name", "product_name")
        return next(
            (v for n, v in _CAPABILITIES.items() if re.search(rf"\b{n}\b", name)), NOT_THERE
        )

    def _ecc(self, kind: str, span: str, where: str) -> str:
        places = ("dram", "sram") if where == "total" else (where,)
        counts = [v for place in places for v in self._ecc_of(kind, span, place)]
        known = [int(v) for v in counts if v.isdigit()]
        return str(sum(known)) if known else NOT_THERE

    def _ecc_of(self, kind: str, span: str, place: str) -> list[str]:
        words = "Correctable" if kind == "corrected" else "Uncorrectable"
        starts = (
            f"ECC Errors/{span.title()}/{place.upper()} {words}",
            f"ecc_errors/{span}/{place}_{words.lower()}",
        )
        # Newer drivers count two kinds of uncorrectable SRAM errors apart.
        return [value for path, value in self.values.items() if path.startswith(starts)]

    def _reason(self, which: str) -> str | None:
        active, said_by = 0, {"supported": "0x00000000000001ff"}
        for bit, field, words in REASONS:
            said_by[field] = self.at(
                f"Clocks Event Reasons/{words}",
                f"Clocks Throttle Reasons/{words}",
                f"clocks_event_reasons/clocks_event_reason_{field}",
                f"clocks_throttle_reasons/clocks_throttle_reason_{field}",
            )
            active |= bit if said_by[field] == "Active" else 0
        said_by["active"] = f"0x{active:016x}"
        return said_by.get(which)


def _printed(field: str, value: str) -> str:
    """Return a value as a row holds it, with its unit if it has one."""
    if value in ("N/A", NOT_THERE):
        return NOT_THERE
    if field.startswith("temperature"):
        return value.removesuffix(" C")
    if field.startswith("pcie.link.width"):
        return value.removesuffix("x")
    return value


def cards_of_report(text: str) -> tuple[Card, ...]:
    """Return the cards of what `nvidia-smi -q` printed."""
    head, *blocks = re.split(r"^GPU [0-9A-F:.]+ *$", text, flags=re.MULTILINE)
    driver = re.search(r"^Driver Version +: (\S+)", head, flags=re.MULTILINE)
    return tuple(
        Card(index, _report_values(block), driver[1] if driver else NOT_THERE, len(blocks))
        for index, block in enumerate(blocks)
    )


def _report_values(block: str) -> dict[str, str]:
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in filter(str.strip, block.splitlines()):
        indent = len(line) - len(line.lstrip())
        name, colon, value = line.strip().partition(" : ")
        above = [one for one in above if one[0] < indent]
        path = "/".join([*(section for _, section in above), name.strip()])
        if colon:
            found.setdefault(path, value.strip())
        # A line with a value has lines below it too: HW Slowdown has its causes.
        above.append((indent, name.strip()))
    return found


def cards_of_xml(text: str) -> tuple[Card, ...]:
    """Return the cards of what `nvidia-smi -q -x` printed."""
    log = ET.fromstring(text)
    gpus = log.findall("gpu")
    driver = log.findtext("driver_version") or NOT_THERE
    return tuple(
        Card(index, dict(_xml_values(gpu)), driver, len(gpus)) for index, gpu in enumerate(gpus)
    )


def _xml_values(above: ET.Element, path: str = "") -> Iterator[tuple[str, str]]:
    for one in above:
        yield from _xml_values(one, f"{path}{one.tag}/")
        if not len(one):
            yield f"{path}{one.tag}", (one.text or "").strip()
