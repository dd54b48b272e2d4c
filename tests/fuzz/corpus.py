"""Which recorded outputs each reader is given."""

from functools import cache

from llmgw_agent.parse.catalog import tools
from llmgw_agent.parse.tool import Tool
from tests.fuzz.further import FIXTURES, FURTHER

__all__ = ["FIXTURES"]

ELSEWHERE = {
    "cpuinfo": "proc/cpuinfo-*",
    "meminfo": "proc/meminfo-*",
    "proc-stat": "proc/stat-*",
    "loadavg": "proc/loadavg-*",
    "imex-nodes": "imex/nodes_config.cfg",
    "imex-devices": "imex/proc-devices.txt",
    "nvidia-smi-help": "nvidia-smi-csv/help-query-gpu-*",
}
"""Where the recordings of a tool are not all of the folder of its name."""


@cache
def by_name() -> dict[str, Tool]:
    """Return all readers by name."""
    return {tool.name: tool for tool in (*tools(), *(further.tool for further in FURTHER))}


@cache
def recordings(tool: str) -> dict[str, str]:
    """Return the recorded texts of a tool by file name, without those of others in its folder."""
    for further in FURTHER:
        if further.tool.name == tool:
            return further.texts()
    pattern = ELSEWHERE.get(tool, f"{tool}/*")
    others = {
        path for name, other in ELSEWHERE.items() if name != tool for path in FIXTURES.glob(other)
    }
    found = sorted(
        path for path in FIXTURES.glob(pattern) if path.name != "README.md" and path not in others
    )
    return {path.name: path.read_text(errors="replace") for path in found}
