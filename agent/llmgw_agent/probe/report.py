"""Health of NVIDIA cards, each minute: the report of nvidia-smi, and their NVLinks."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.units import counted
from llmgw.base.world import Done
from llmgw.model.device import (
    GRAPHICS,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NvlinkFabric,
)
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.host.apart import apart
from llmgw_agent.parse.card_devices import process_kind
from llmgw_agent.parse.gpu_health import health, reasons, with_links
from llmgw_agent.parse.gpu_report import GpuReport, ReportProcess, SmiReport
from llmgw_agent.parse.nvidia_smi_report import read_report
from llmgw_agent.parse.plausible import MOST_CARDS
from llmgw_agent.probe.links import Links
from llmgw_agent.probe.merging import with_health, with_unhealthy, with_warnings
from llmgw_agent.probe.per_card import PerCard
from llmgw_agent.probe.smi import OFTEN, SELDOM, NvidiaSmi, explain_failure
from llmgw_agent.probe.source import Source

_QUERY: Final = "nvidia-smi -q"
_WORN_OUT: Final = (
    "more uncorrectable errors of on-chip memory over its life than its maker allows: "
    "have the card replaced"
)


def _is_nobodys(_pid: int) -> bool:
    return False


class ReportProbe(Source):
    """ECC, remapped rows, retired pages, what the driver asks for, NVLink fabric and errors.

    Of a report that is cut only the whole sections are believed; a card without one keeps its
    last reading for a minute. The readings of cards are given what they lack where nvidia-smi is
    asked for them: its queries tell neither of PCIe replays nor of processes that only draw.

    Args:
        smi: the tool.
        clock: the time.
        is_own: says whether a process is of this agent's own engines.
    """

    name = "gpu-health"
    timeout = 55.0

    def __init__(
        self, smi: NvidiaSmi, clock: Clock, *, is_own: Callable[[int], bool] = _is_nobodys
    ) -> None:
        self._smi = smi
        self._is_own = is_own
        self._own: frozenset[int] = frozenset()
        self._reports: PerCard[GpuReport] = PerCard(clock)
        self._links = Links(smi, clock)
        self._cards = 0

    @property
    def period(self) -> float:
        """Return the seconds between two readings."""
        return OFTEN if self._cards else SELDOM

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self._reports.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add NVLink fabrics, reasons why nothing can be placed on a card, and warnings."""
        if inventory.devices:
            there = {device.uuid for device in inventory.devices}
            self._reports.hold(there)
            self._links.hold(there)
        inventory = with_fabrics(inventory, self._reports.fresh)
        inventory = with_unhealthy(inventory, self._reasons())
        return with_warnings(inventory, (*self._worn_out(), *self._links.warnings))

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the cards' health, and to their readings what those lack.

        Of a card on which nobody reported for a minute, neither this source nor one before it, the
        age alone is told: what others add to it must not look as if it were its health.
        """
        fresh = self._reports.fresh
        others = {one.uuid for one in heartbeat.health or ()}
        told = {uuid: self._health(report) for uuid, report in fresh.items()}
        for uuid in self._reports.last.keys() - told.keys() - others:
            told[uuid] = DeviceHealth(uuid=uuid, age=self._reports.age_of(uuid))
        if heartbeat.devices is not None:
            samples = tuple(
                with_report(one, fresh.get(one.uuid), self._own) for one in heartbeat.devices
            )
            heartbeat = msgspec.structs.replace(heartbeat, devices=samples)
        return with_health(heartbeat, told)

    async def read(self) -> str:
        """Read the report, then the links."""
        try:
            done = await self._smi.run("-q")
        except NotFound:
            if self.age is not None:
                raise
            return "nvidia-smi is not on this machine"
        report = await apart(lambda _: _report(done), done.out)
        if report is None:
            self._cards = 0
            return "no NVIDIA cards"
        whole = {
            gpu.uuid: gpu for gpu in report.gpus[:MOST_CARDS] if gpu.whole and gpu.uuid is not None
        }
        self._own = frozenset(
            one.pid
            for gpu in whole.values()
            for one in gpu.processes or ()
            if _draws(one) and self._is_own(one.pid)
        )
        self._reports.put(whole)
        self._cards = max(len(report.gpus), report.attached or 0)
        troubles = [] if len(whole) == self._cards else [_cut(len(whole), self._cards, done)]
        troubles += await self._read_links()
        if troubles:
            raise Unreadable("; ".join(troubles))
        return f"health of {counted(len(whole), 'card')}"

    async def _read_links(self) -> list[str]:
        try:
            await self._links.read()
        except LlmgwError as error:
            return [f"NVLinks: {error.message}"]
        return []

    def _health(self, report: GpuReport) -> DeviceHealth:
        uuid = report.uuid or ""
        told = with_links(health(report), self._links.up(uuid), self._links.errors(uuid))
        return msgspec.structs.replace(told, age=self._reports.age_of(uuid))

    def _reasons(self) -> dict[str, tuple[str, ...]]:
        """Return why nothing can be placed on each card that is known.

        That a card is fine counts for a minute. What it is out of order for counts however old it
        is: that is not over because the tool hangs.
        """
        fresh = self._reports.fresh
        found = ((uuid, reasons(health(one))) for uuid, one in self._reports.last.items())
        return {uuid: why for uuid, why in found if why or (why is not None and uuid in fresh)}

    def _worn_out(self) -> tuple[NodeWarning, ...]:
        return tuple(
            NodeWarning(subject="gpu", words=f"{report.name} at {report.pci_address}: {_WORN_OUT}")
            for report in self._reports.last.values()
            if report.errors is not None and report.errors.threshold_exceeded
        )


def with_report(
    sample: DeviceSample, report: GpuReport | None, own: frozenset[int]
) -> DeviceSample:
    """Return a card's readings with what they lack of its report.

    Args:
        sample: the readings. Where it is not known who is there, that stays so.
        report: of the card; None: there is none.
        own: pids of this agent's own engines.
    """
    if report is None:
        return sample
    replays = report.pcie_replays if sample.pcie_replays is None else sample.pcie_replays
    foreign = sample.foreign
    if foreign is not None:
        known = {*own, *(one.pid for one in foreign)}
        foreign += tuple(
            ForeignProcess(
                pid=one.pid, command=one.name, memory_bytes=one.memory_bytes, kind=GRAPHICS
            )
            for one in report.processes or ()
            if _draws(one) and one.pid not in known
        )
    return msgspec.structs.replace(sample, pcie_replays=replays, foreign=foreign)


def _draws(process: ReportProcess) -> bool:
    """Say whether a process only draws, on the whole card."""
    return process_kind(process.kind) == GRAPHICS and process.gpu_instance is None


def with_fabrics(inventory: Inventory, reports: Mapping[str, GpuReport]) -> Inventory:
    """Return the inventory with each card's NVLink fabric; what is known of it already stays.

    An instance has none: NVLink reaches whole cards.
    """
    if not reports or inventory.devices is None:
        return inventory
    return msgspec.structs.replace(
        inventory,
        devices=tuple(
            msgspec.structs.replace(
                device, nvlink=_both(device.nvlink, reports[device.uuid].fabric)
            )
            if device.uuid in reports
            else device
            for device in inventory.devices
        ),
    )


def _both(before: NvlinkFabric | None, more: NvlinkFabric | None) -> NvlinkFabric | None:
    if before is None or more is None:
        return more if before is None else before
    missing = [name for name in more.__struct_fields__ if getattr(before, name) is None]
    return msgspec.structs.replace(before, **{name: getattr(more, name) for name in missing})


def _report(done: Done) -> SmiReport | None:
    """Return the report; None when there are no cards to report on.

    A card that is lost makes the tool fail after the sections of the others: those count.
    """
    try:
        report = read_report(done.out)
    except Unreadable:
        if done.rc == 0:
            raise
        report = SmiReport()
    if not report.gpus and done.rc != 0:
        explain_failure(done, _QUERY)
        return None
    return report if report.gpus or report.attached != 0 else None


def _cut(whole: int, cards: int, done: Done) -> str:
    words = f"{_QUERY} tells all of {whole} of {cards} cards"
    return words if done.rc == 0 else f"{words} (exit status {done.rc})"
