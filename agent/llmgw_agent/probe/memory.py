"""Memory of the machine, from /proc/meminfo."""

from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.world import Files
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.parse.meminfo import Memory, read_meminfo
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source


class MemoryProbe(Source):
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

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add how much there is, once there is a machine to add it to."""
        memory, host = self.memory.last, inventory.host
        if memory is None or host is None:
            return inventory
        host = msgspec.structs.replace(host, memory_bytes=memory.total_bytes)
        return msgspec.structs.replace(inventory, host=host)

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add total and available memory."""
        memory = self.memory.fresh
        if memory is None:
            return heartbeat
        return msgspec.structs.replace(
            heartbeat,
            memory_bytes=memory.total_bytes,
            memory_available_bytes=memory.available_bytes,
        )

    async def read(self) -> str:
        """Read /proc/meminfo."""
        text = self._files.read(Path("/proc/meminfo")).decode(errors="replace")
        self.memory.put(read_meminfo(text))
        return "memory is read"
