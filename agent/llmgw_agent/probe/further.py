"""The sources that refine what the first ones found, in the order in which they are asked."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.world import Files, Http, Processes
from llmgw.model.settings import NodeSettings
from llmgw_agent.config import AgentConfig
from llmgw_agent.host import small_file, tree
from llmgw_agent.host.helper import Helper
from llmgw_agent.probe import bandwidth, xid_memory
from llmgw_agent.probe.bandwidth import BandwidthProbe
from llmgw_agent.probe.dcgm import DcgmProbe
from llmgw_agent.probe.facts import ProbedSource
from llmgw_agent.probe.imex import ImexProbe
from llmgw_agent.probe.kernel_log import KernelLogProbe
from llmgw_agent.probe.log_sources import log_sources
from llmgw_agent.probe.pci import PciProbe
from llmgw_agent.probe.ports import PortsProbe
from llmgw_agent.probe.report import ReportProbe
from llmgw_agent.probe.sensors import SensorsProbe
from llmgw_agent.probe.smi import NvidiaSmi
from llmgw_agent.probe.subnet_managers import SubnetManagersProbe
from llmgw_agent.probe.topology import TopologyProbe
from llmgw_agent.probe.xid_memory import XidMemory


@dataclass(frozen=True, slots=True)
class Means:
    """What sources are made with."""

    clock: Clock
    files: Files
    processes: Processes
    http: Http
    config: AgentConfig
    new_helper: Callable[[str], Helper]
    """Makes a helper process of a module."""
    settings: Callable[[], NodeSettings | None]
    """What the control plane told; None: nothing yet."""
    own_groups: Callable[[], frozenset[int]]
    """Returns the process groups of this agent's own engines."""
    state: Path
    """The agent's state directory."""
    writes: bool = True
    """Whether anything may be written there."""


def further(means: Means) -> tuple[ProbedSource, ...]:
    """Return the sources beside host, memory, processors, disks, cards and engines."""
    clock, files = means.clock, means.files
    smi = NvidiaSmi(means.processes, clock)
    ports = PortsProbe(files, means.processes, lambda: means.new_helper(tree.HELPER), clock)
    found: list[ProbedSource] = [
        SensorsProbe(files, lambda: means.new_helper(tree.HELPER), clock),
        ReportProbe(smi, clock, is_own=lambda pid: _is_own(means, pid)),
        TopologyProbe(smi, clock),
        # After the report, whose fabrics name the NVLink domain.
        ImexProbe(files, clock),
        # Last of those that speak of devices: it adds what the others could not read.
        DcgmProbe(means.http, means.settings, clock),
        PciProbe(files, means.new_helper(tree.HELPER), clock),
        # After the cards' reports, which say whether a card was reset since its errors.
        KernelLogProbe(log_sources(means.processes), files, clock, _xid_memory(means)),
        ports,
        SubnetManagersProbe(means.processes, ports, clock),
    ]
    if means.config.measure_bandwidth:
        found.append(BandwidthProbe(files, means.new_helper(bandwidth.MODULE), clock))
    return tuple(found)


def _xid_memory(means: Means) -> XidMemory:
    helper = means.new_helper(small_file.HELPER)
    return XidMemory(means.state / xid_memory.FILE, helper, writes=means.writes)


def _is_own(means: Means, pid: int) -> bool:
    groups = means.own_groups()
    seen = means.processes.look(pid) if groups else None
    return seen is not None and seen.group in groups
