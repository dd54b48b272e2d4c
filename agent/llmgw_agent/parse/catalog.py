"""Every tool whose output can be read: each parser names its own in `TOOLS`."""

import importlib

from llmgw.base.errors import NotFound
from llmgw_agent.parse.tool import Tool

MODULES = (
    "nvidia_smi",
    "nvidia_smi_list",
    "nvidia_smi_xml",
    "nvidia_smi_table",
    "nvidia_smi_report",
    "nvidia_smi_nvlink",
    "nvidia_smi_topo",
    "imex",
    "kernel_log",
    "lspci",
    "dcgm",
    "hwmon",
    "sensors",
    "rapl",
    "statfs",
    "cpuinfo",
    "meminfo",
    "proc_stat",
    "infiniband",
    "ibstat",
    "ibstatus",
    "ibdev2netdev",
    "show_gids",
    "sminfo",
    "saquery",
)


def tools() -> tuple[Tool, ...]:
    """Return all tools, by name."""
    found = [
        tool
        for module in MODULES
        for tool in importlib.import_module(f"llmgw_agent.parse.{module}").TOOLS
    ]
    return tuple(sorted(found, key=lambda tool: tool.name))


def tool(name: str) -> Tool:
    """Return a tool by its name.

    Raises:
        NotFound: nothing of that name can be read.
    """
    for one in tools():
        if one.name == name:
            return one
    raise NotFound(f"no reader for {name!r}", hint="list them: llmgw parse --list")
