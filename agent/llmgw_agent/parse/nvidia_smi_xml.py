"""`nvidia-smi -q -x`: the full report on each card as XML, of any driver."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from llmgw.base.errors import Unreadable
from llmgw.model.device import DeviceHealth, NvlinkFabric, PciLink
from llmgw_agent.parse import smi_values
from llmgw_agent.parse.cards import (
    LOST,
    Card,
    CardProcess,
    CardsSeen,
    Instance,
)
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.parse.tool import Tool
from llmgw_agent.parse.xml_tree import Element, read_xml

_POWER = (
    # The average over a second is what `power.draw` and NVML itself answer where there is one.
    *("gpu_power_readings/average_power_draw", "gpu_power_readings/instant_power_draw"),
    *("gpu_power_readings/power_draw", "power_readings/power_draw"),
)
"""Where it stood before 535, from 535 on, and from 570 on."""

_POWER_LIMIT = (
    *("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
    "power_readings/power_limit",
)
_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_REASON_BITS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
"""How elements of the reasons end, and NVML's bits of them."""

_CORRECTED = ("sram_correctable", "dram_correctable")
_UNCORRECTED = (
    *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
    "dram_uncorrectable",
)
_ACTIONS = {"None": "none", "Reset": "reset", "Reboot": "reboot"}
_LINK = "pci/pci_gpu_link_info"
_NAME, _NAME_END = "<process_name>", "</process_name>"
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

Ids = tuple[int | None, int | None]
"""Of a GPU instance and its compute instance."""


def read_report(text: str) -> CardsSeen:
    """Return the cards that the report has a section on.

    How many the report says there are is not believed. A card's number is its place in the report,
    and not known when fewer are there than it says.

    Raises:
        Unreadable: it is not XML, or not this report.
    """
    root = read_xml("\n".join(map(_harmless, lines_of(text))))
    if root.tag != "nvidia_smi_log":
        raise Unreadable(f"not a report of nvidia-smi: <{root.tag[:60]}>")
    found = root.all("gpu")
    places = [place for gpu in found if (place := pci_key(_address(gpu)))]
    if len(set(places)) < len(places):
        raise Unreadable("nvidia-smi -q -x: two sections on one card")
    numbered = smi_values.whole(root.said("attached_gpus")) == len(found)
    return CardsSeen(
        cards=tuple(_card(gpu, place if numbered else None) for place, gpu in enumerate(found)),
        driver=smi_values.words(root.said("driver_version")),
        cuda=smi_values.words(root.said("cuda_version")),
    )


def _harmless(line: str) -> str:
    """Return a line in which no name says what only the tool may.

    The tool writes the names of cards and processes as they are: one that holds tags would pass for
    further processes, and an ampersand or a control character would break the report.
    """
    line = _NOT_XML.sub("?", line)
    said = line.strip()
    name = said[len(_NAME) : -len(_NAME_END)]
    of_a_name = said.startswith(_NAME) and said.endswith(_NAME_END)
    return "" if of_a_name and ("<" in name or "&" in name) else line


def _card(gpu: Element, index: int | None) -> Card:
    uuid = smi_values.card_uuid(gpu.said("uuid"))
    memory = gpu.said("fb_memory_usage/total")
    total = smi_values.mib(memory)
    mig = smi_values.switch(gpu.said("mig_mode/current_mig"))
    processes = _processes(gpu)
    instances = tuple(_instances(gpu, processes)) if mig else None
    return Card(
        index=index,
        uuid=uuid,
        name=smi_values.words(gpu.said("product_name")),
        pci_address=_address(gpu),
        memory_total=total,
        memory_used=smi_values.mib(gpu.said("fb_memory_usage/used")),
        memory_of_its_own=True if total is not None else _own_memory(memory),
        busy=smi_values.percent(gpu.said("utilization/gpu_util")),
        bandwidth=smi_values.percent(gpu.said("utilization/memory_util")),
        temperature=_heat(gpu, "gpu_temp"),
        memory_temperature=_heat(gpu, "memory_temp"),
        power=_watts(gpu, _POWER),
        power_limit=_watts(gpu, _POWER_LIMIT),
        sm_clock=smi_values.megahertz(gpu.said("clocks/sm_clock")),
        fan=smi_values.fan(gpu.said("fan_speed")),
        mig=mig,
        instances=instances,
        throttle_bits=_throttle_bits(gpu),
        ecc_corrected=_ecc(gpu, "volatile", _CORRECTED, "single_bit"),
        ecc_uncorrected=_ecc(gpu, "volatile", _UNCORRECTED, "double_bit"),
        pcie_replays=smi_values.whole(gpu.said("pci/replay_counter")),
        pci=_link(gpu),
        slot_generation=smi_values.whole(gpu.said(f"{_LINK}/pcie_gen/max_host_link_gen")),
        fabric=_fabric(gpu),
        health=None if uuid is None else _health(gpu, uuid),
        processes=_of_no_instance(processes, instances or ()),
        trouble=_trouble(gpu, uuid),
    )


def _own_memory(memory: str) -> bool | None:
    return False if smi_values.not_there(memory) else None


def _trouble(gpu: Element, uuid: str | None) -> str | None:
    if uuid is None:
        said = gpu.said("uuid") or "nothing"
        return f"the driver does not tell the card's UUID: {said[:80]}"
    values = [child.text.lower() for child in gpu.children]
    return LOST if any("gpu is lost" in value for value in values) else None


def _address(gpu: Element) -> str | None:
    address = gpu.said("pci/pci_bus_id") or gpu.attributes.get("id", "")
    return address if pci_key(address) else None


def _heat(gpu: Element, name: str) -> float | None:
    return smi_values.celsius(gpu.said(f"temperature/{name}"))


def _watts(gpu: Element, paths: Sequence[str]) -> float | None:
    found = (smi_values.watts(gpu.said(path)) for path in paths)
    return next((watts for watts in found if watts is not None), None)


def _throttle_bits(gpu: Element) -> int | None:
    said: list[tuple[int, str]] = []
    for name in _REASONS:
        for reason in (gpu.find(name) or Element("", {})).children:
            ending = reason.tag.partition("_reason_")[2]
            if ending in _REASON_BITS and reason.text.strip() in {"Active", "Not Active"}:
                said.append((_REASON_BITS[ending], reason.text.strip()))
    if not said:
        return None
    return sum(bit for bit, state in dict(said).items() if state == "Active")


def _ecc(gpu: Element, span: str, names: Iterable[str], older: str) -> int | None:
    """Return the errors of one kind over on-chip and device memory, as far as they are told."""
    here = f"ecc_errors/{span}"
    counts = [smi_values.whole(gpu.said(f"{here}/{name}")) for name in names]
    told = [count for count in counts if count is not None]
    return sum(told) if told else smi_values.whole(gpu.said(f"{here}/{older}/total"))


def _link(gpu: Element) -> PciLink | None:
    generation, width = f"{_LINK}/pcie_gen", f"{_LINK}/link_widths"
    link = PciLink(
        max_generation=smi_values.whole(gpu.said(f"{generation}/max_link_gen")),
        card_generation=smi_values.whole(gpu.said(f"{generation}/max_device_link_gen")),
        lanes=smi_values.whole(gpu.said(f"{width}/current_link_width"), "x"),
        max_lanes=smi_values.whole(gpu.said(f"{width}/max_link_width"), "x"),
    )
    return None if link == PciLink() else link


def _fabric(gpu: Element) -> NvlinkFabric | None:
    fabric = NvlinkFabric(
        state=smi_values.words(gpu.said("fabric/state")),
        status=smi_values.words(gpu.said("fabric/status")),
        cluster_uuid=smi_values.words(gpu.said("fabric/clusterUuid")),
        clique_id=smi_values.whole(gpu.said("fabric/cliqueId")),
        bandwidth=smi_values.words(gpu.said("fabric/health/bandwidth")),
        health=smi_values.words(gpu.said("fabric/health/summary")),
    )
    return None if fabric == NvlinkFabric() else fabric


def _health(gpu: Element, uuid: str) -> DeviceHealth | None:
    def yes(path: str) -> bool | None:
        return smi_values.switch(gpu.said(path), "Yes", "No")

    def count(path: str) -> int | None:
        return smi_values.whole(gpu.said(path))

    health = DeviceHealth(
        uuid=uuid,
        ecc_corrected_volatile=_ecc(gpu, "volatile", _CORRECTED, "single_bit"),
        ecc_uncorrected_volatile=_ecc(gpu, "volatile", _UNCORRECTED, "double_bit"),
        ecc_corrected_aggregate=_ecc(gpu, "aggregate", _CORRECTED, "single_bit"),
        ecc_uncorrected_aggregate=_ecc(gpu, "aggregate", _UNCORRECTED, "double_bit"),
        remapped_corrected=count("remapped_rows/remapped_row_corr"),
        remapped_uncorrected=count("remapped_rows/remapped_row_unc"),
        remap_pending=yes("remapped_rows/remapped_row_pending"),
        remap_failed=yes("remapped_rows/remapped_row_failure"),
        retired_corrected=count("retired_pages/multiple_single_bit_retirement/retired_count"),
        retired_uncorrected=count("retired_pages/double_bit_retirement/retired_count"),
        retire_pending=yes("retired_pages/pending_retirement"),
        recovery_action=_recovery_action(gpu),
    )
    return None if health == DeviceHealth(uuid=uuid) else health


def _recovery_action(gpu: Element) -> str | None:
    said = gpu.said("gpu_recovery_action")
    if said.startswith("Drain"):
        return "drain"
    if said in _ACTIONS:
        return _ACTIONS[said]
    if gpu.said("gpu_reset_status/drain_and_reset_recommended") == "Yes":
        return "drain"
    asked = smi_values.switch(gpu.said("gpu_reset_status/reset_required"), "Yes", "No")
    return None if asked is None else "reset" if asked else "none"


def _processes(gpu: Element) -> list[tuple[CardProcess, Ids]] | None:
    """Return the processes on a card and its instances; None where it can't tell."""
    holder = gpu.find("processes")
    if holder is None or (not holder.children and holder.text.strip()):
        return None
    said = holder.all("process_info")
    if any(len({part.tag for part in one.children}) < len(one.children) for one in said):
        return None  # a name with line ends and tags in it: who is there can't be told
    return [found for one in said if (found := _process(one)) is not None]


def _process(said: Element) -> tuple[CardProcess, Ids] | None:
    pid = smi_values.pid(said.said("pid"))
    if pid is None:
        return None
    process = CardProcess(
        pid=pid,
        name=smi_values.words(said.said("process_name")),
        memory_bytes=smi_values.mib(said.said("used_memory")),
        kind=smi_values.words(said.said("type")),
    )
    return process, _ids(said)


def _ids(said: Element) -> Ids:
    names = ("gpu_instance_id", "compute_instance_id")
    first, second = (smi_values.whole(said.said(name)) for name in names)
    return first, second


def _instances(gpu: Element, processes: list[tuple[CardProcess, Ids]] | None) -> Iterator[Instance]:
    for said in gpu.all("mig_devices/mig_device"):
        ids = _ids(said)
        attributes = "device_attributes/shared"
        yield Instance(
            index=smi_values.whole(said.said("index")),
            gpu_instance=ids[0],
            compute_instance=ids[1],
            multiprocessors=smi_values.whole(said.said(f"{attributes}/multiprocessor_count")),
            memory_total=smi_values.mib(said.said("fb_memory_usage/total")),
            memory_used=smi_values.mib(said.said("fb_memory_usage/used")),
            processes=None if processes is None else _theirs(processes, {ids}),
        )


def _theirs(
    processes: list[tuple[CardProcess, Ids]], wanted: Collection[Ids]
) -> tuple[CardProcess, ...]:
    return tuple(process for process, ids in processes if ids in wanted and None not in ids)


def _of_no_instance(
    processes: list[tuple[CardProcess, Ids]] | None, instances: Sequence[Instance]
) -> tuple[CardProcess, ...] | None:
    if processes is None:
        return None
    known = {(one.gpu_instance, one.compute_instance) for one in instances}
    on_instances = _theirs(processes, known)
    return tuple(process for process, _ in processes if process not in on_instances)


TOOLS = (Tool("nvidia-smi-q-x", "nvidia-smi -q -x", read_report),)
