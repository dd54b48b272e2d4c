"""Memory of the machine, from /proc/meminfo."""

from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.world import Files
from llmgw_agent.parse.meminfo import Memory, read_meminfo
from llmgw_agent.probe.kept import Kept


class MemoryProbe:
    """Total and available memory; both can change while a virtual machine runs."""

    name = "memory"
    period = 5.0
    timeout = 5.0

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self.memory: Kept[Memory] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.memory.age

    async def read(self) -> str:
        """Read /proc/meminfo."""
        text = self._files.read(Path("/proc/meminfo")).decode(errors="replace")
        self.memory.put(read_meminfo(text))
        return "memory is read"
