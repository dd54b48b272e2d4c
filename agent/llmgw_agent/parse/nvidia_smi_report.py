"""`nvidia-smi -q`: the full report on each card, of any driver, whole or in excerpts."""

from typing import Final, TypeVar

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.device import PciLink
from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.cards import THROTTLE_REASONS
from llmgw_agent.parse.gpu_report import (
    CardClocks,
    CardHeat,
    CardMemory,
    CardPower,
    GpuReport,
    MemoryErrors,
    RemappedRows,
    ReportProcess,
    RetiredPages,
    SmiReport,
)
from llmgw_agent.parse.nvidia_smi_fabric import read_fabric, read_fabrics
from llmgw_agent.parse.nvidia_smi_sections import Section, read_sections
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.parse.tool import Tool

R = TypeVar("R", bound=Record)

_HEADER: Final = ("Driver Version", "CUDA Version", "Attached GPUs")
_OF_A_CARD: Final = (
    *("Product Name", "GPU UUID", "MIG Mode", "PCI", "FB Memory Usage", "Utilization"),
    *("ECC Mode", "ECC Errors", "Retired Pages", "Remapped Rows", "Temperature", "Clocks"),
    *("Power Readings", "GPU Power Readings", "GPU Recovery Action", "GPU Reset Status"),
    *("Clocks Event Reasons", "Clocks Throttle Reasons", "Fabric", "Processes"),
)
_LAST: Final = ("Processes", "Capabilities")

_THROTTLE_BITS: Final = {
    "Idle": 0x1,
    "Applications Clocks Setting": 0x2,
    "SW Power Cap": 0x4,
    "HW Slowdown": 0x8,
    "Sync Boost": 0x10,
    "SW Thermal Slowdown": 0x20,
    "HW Thermal Slowdown": 0x40,
    "HW Power Brake Slowdown": 0x80,
    "Display Clock Setting": 0x100,
}
_CORRECTED: Final = ("SRAM Correctable", "DRAM Correctable")
_UNCORRECTED: Final = (
    *("SRAM Uncorrectable", "SRAM Uncorrectable Parity", "SRAM Uncorrectable SEC-DED"),
    "DRAM Uncorrectable",
)


def read_report(text: str) -> SmiReport:
    """Return what the report tells of each card that has a section.

    An excerpt without a card's headline counts as one card's.

    Raises:
        Unreadable: no line is of such a report; the message quotes what was said instead.
    """
    report = read_sections(text)
    gpus = [_own(part) for part in report.parts if _is_card(part)]
    if not gpus and report.has(*_OF_A_CARD):
        gpus = [report]
    if not gpus and not report.has(*_HEADER):
        raise Unreadable(f"nvidia-smi -q: {' '.join(text.split())[:120]!r} is no report")
    return SmiReport(
        driver=report.text("Driver Version"),
        cuda=report.text("CUDA Version"),
        attached=report.count("Attached GPUs"),
        gpus=_told_once([_gpu(gpu) for gpu in gpus]),
    )


def _own(gpu: Section) -> Section:
    """Return a card's section without what follows its processes, but for what the tool writes.

    A process chooses its name: one with line ends would pass for further lines of the report.
    """
    names = [part.name for part in gpu.parts]
    end = names.index("Processes") + 1 if "Processes" in names else len(names)
    later = [part for part in gpu.parts[end:] if part.name in _LAST]
    return Section(gpu.name, gpu.value, gpu.parts[:end] + later)


def _told_once(gpus: list[GpuReport]) -> tuple[GpuReport, ...]:
    """Return the cards; of two sections on one, none is whole: either may stand in a name."""
    places = [pci_key(gpu.pci_address) for gpu in gpus]
    uuids = [gpu.uuid for gpu in gpus]
    return tuple(
        msgspec.structs.replace(gpu, whole=False)
        if (place is not None and places.count(place) > 1)
        or (gpu.uuid is not None and uuids.count(gpu.uuid) > 1)
        else gpu
        for gpu, place in zip(gpus, places, strict=True)
    )


def _is_card(section: Section) -> bool:
    word, _, address = section.name.partition(" ")
    return word == "GPU" and section.value is None and pci_key(address) is not None


def _gpu(gpu: Section) -> GpuReport:
    ecc, use = gpu.part("ECC Mode"), gpu.part("Utilization")
    pci = gpu.part("PCI")
    return GpuReport(
        pci_address=gpu.name.removeprefix("GPU ") or pci.text("Bus Id"),
        uuid=gpu.text("GPU UUID"),
        name=gpu.text("Product Name"),
        whole=gpu.has(*_LAST),
        addressing_mode=gpu.text("Addressing Mode"),
        mig=gpu.part("MIG Mode").switch("Current"),
        memory=_memory(gpu.part("FB Memory Usage")),
        busy_percent=use.percent("Gpu", "GPU"),
        memory_bandwidth_percent=use.percent("Memory"),
        fan_percent=gpu.fan("Fan Speed"),
        heat=_heat(gpu.part("Temperature")),
        power=_power(gpu),
        clocks=_clocks(gpu.part("Clocks")),
        most_clocks=_clocks(gpu.part("Max Clocks")),
        throttle_reasons=_throttle_reasons(gpu),
        ecc=ecc.switch("Current"),
        errors=_errors(gpu.part("ECC Errors")),
        remapped=_remapped(gpu.part("Remapped Rows")),
        retired=_retired(gpu.part("Retired Pages")),
        recovery_action=_recovery_action(gpu),
        pci=_link(pci.part("GPU Link Info")),
        pcie_replays=pci.count("Replays Since Reset"),
        fabric=read_fabric(gpu.part("Fabric")),
        processes=_processes(gpu),
    )


def _said(record: R) -> R | None:
    """Return a record, or None when nothing is in it."""
    named = (getattr(record, name) for name in record.__struct_fields__)
    return record if any(value is not None for value in named) else None


def _memory(memory: Section) -> CardMemory | None:
    return _said(
        CardMemory(
            total=memory.size("Total"),
            reserved=memory.size("Reserved"),
            used=memory.size("Used"),
            free=memory.size("Free"),
        )
    )


def _heat(heat: Section) -> CardHeat | None:
    return _said(
        CardHeat(
            gpu=heat.celsius("GPU Current Temp"),
            memory=heat.celsius("Memory Current Temp"),
            to_limit=heat.celsius("GPU T.Limit Temp"),
            shutdown=heat.celsius("GPU Shutdown Temp"),
            slowdown=heat.celsius("GPU Slowdown Temp"),
            most_operating=heat.celsius("GPU Max Operating Temp"),
        )
    )


def _power(gpu: Section) -> CardPower | None:
    """Return the GPU's power: 535 renamed the section, 570 split the draw in two."""
    power = gpu.part("GPU Power Readings")
    if not power.parts:
        power = gpu.part("Power Readings")
    return _said(
        CardPower(
            draw=power.watts("Power Draw", "Instantaneous Power Draw", "Average Power Draw"),
            limit=power.watts("Current Power Limit", "Enforced Power Limit", "Power Limit"),
            requested_limit=power.watts("Requested Power Limit"),
            default_limit=power.watts("Default Power Limit"),
            least_limit=power.watts("Min Power Limit"),
            most_limit=power.watts("Max Power Limit"),
        )
    )


def _clocks(clocks: Section) -> CardClocks | None:
    return _said(
        CardClocks(
            graphics=clocks.megahertz("Graphics"),
            sm=clocks.megahertz("SM"),
            memory=clocks.megahertz("Memory"),
            video=clocks.megahertz("Video"),
        )
    )


def _throttle_reasons(gpu: Section) -> tuple[str, ...] | None:
    reasons = gpu.part("Clocks Event Reasons")
    if not reasons.parts:
        reasons = gpu.part("Clocks Throttle Reasons")
    hardware = reasons.part("HW Slowdown")
    said = {
        name: active
        for name in _THROTTLE_BITS
        if (active := _first(reasons.switch(name), hardware.switch(name))) is not None
    }
    if not said:
        return None
    bits = {_THROTTLE_BITS[name] for name, active in said.items() if active}
    return tuple(words for bit, words in THROTTLE_REASONS if bit in bits)


def _first(first: bool | None, second: bool | None) -> bool | None:
    return second if first is None else first


def _errors(errors: Section) -> MemoryErrors | None:
    volatile, aggregate = errors.part("Volatile"), errors.part("Aggregate")
    return _said(
        MemoryErrors(
            corrected_volatile=_sum(volatile, _CORRECTED, "Single Bit"),
            uncorrected_volatile=_sum(volatile, _UNCORRECTED, "Double Bit"),
            corrected_aggregate=_sum(aggregate, _CORRECTED, "Single Bit"),
            uncorrected_aggregate=_sum(aggregate, _UNCORRECTED, "Double Bit"),
            threshold_exceeded=aggregate.switch("SRAM Threshold Exceeded"),
        )
    )


def _sum(errors: Section, names: tuple[str, ...], before_turing: str) -> int | None:
    """Return a number of errors: since Turing by kind of memory, before that with a total.

    A kind that is not told makes the sum unknown: a part of it would pass for all.
    """
    counts = [errors.count(name) for name in names if errors.has(name)]
    if not counts:
        return errors.part(before_turing).count("Total")
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def _remapped(rows: Section) -> RemappedRows | None:
    return _said(
        RemappedRows(
            corrected=rows.count("Correctable Error"),
            uncorrected=rows.count("Uncorrectable Error"),
            pending=rows.switch("Pending"),
            failed=rows.switch("Remapping Failure Occurred"),
        )
    )


def _retired(pages: Section) -> RetiredPages | None:
    return _said(
        RetiredPages(
            corrected=pages.count("Single Bit ECC"),
            uncorrected=pages.count("Double Bit ECC"),
            pending=pages.switch("Pending Page Blacklist", "Pending Retirement", "Pending"),
        )
    )


def _recovery_action(gpu: Section) -> str | None:
    """Return what the driver asks for.

    Since 565 in a line of its own: None, Reset, Reboot, Drain P2P, Drain and Reset
    (nvmlDeviceGpuRecoveryAction_t). Before that in two questions, which newer drivers deprecate.
    """
    asked = (gpu.text("GPU Recovery Action") or "").lower()
    for word in ("drain", "reboot", "reset", "none"):
        if word in asked:
            return word
    status = gpu.part("GPU Reset Status")
    if status.switch("Drain and Reset Recommended"):
        return "drain"
    reset = status.switch("Reset Required")
    return None if reset is None else ("reset" if reset else "none")


def _link(link: Section) -> PciLink | None:
    generation, width = link.part("PCIe Generation"), link.part("Link Width")
    return _said(
        PciLink(
            max_generation=generation.count("Max"),
            card_generation=generation.count("Device Max"),
            lanes=_lanes(width, "Current"),
            max_lanes=_lanes(width, "Max"),
        )
    )


def _lanes(width: Section, name: str) -> int | None:
    text = width.text(name) or ""
    number = text.removesuffix("x")
    return int(number) if text.endswith("x") and number.isdecimal() and len(number) < 4 else None


def _processes(gpu: Section) -> tuple[ReportProcess, ...] | None:
    """Return the processes; they follow each other without a line of their own."""
    section = gpu.part("Processes")
    if not section.parts:
        return () if section.value == "None" else None
    found: list[ReportProcess] = []
    instances = Section()
    for part in section.parts:
        if part.name == "Process ID":
            process = _process(part, instances)
            found += [] if process is None else [process]
            instances = Section()
        else:
            instances.parts.append(part)
    return tuple(found)


def _process(part: Section, instances: Section) -> ReportProcess | None:
    pid = plausible.pid(Section(parts=[part]).count("Process ID"))
    if pid is None:
        return None
    return ReportProcess(
        pid=pid,
        kind=part.text("Type"),
        name=part.text("Name"),
        memory_bytes=part.size("Used GPU Memory"),
        gpu_instance=instances.count("GPU instance ID"),
        compute_instance=instances.count("Compute instance ID"),
    )


TOOLS = (
    Tool("nvidia-smi-q", "nvidia-smi -q", read_report),
    Tool("nvidia-smi-fabric", "nvidia-smi -q", read_fabrics),
)
