"""Use of the processors, from /proc/stat and /proc/loadavg."""

from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.units import counted
from llmgw.base.world import Files
from llmgw.model.node import Heartbeat, Inventory
from llmgw.model.record import Record
from llmgw_agent.parse.proc_stat import CpuTimes, busy_percent, read_loadavg, read_stat
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source


class CpuUse(Record, frozen=True, kw_only=True):
    """Use over all processors since the reading before; percent 0-100."""

    cpus: int
    busy_percent: float | None = None
    """None at the first reading: a share needs two."""
    load: float | None = None


class CpuProbe(Source):
    """How many processors there are, how busy they are, the load."""

    name = "cpu"
    period = 5.0
    timeout = 5.0

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._before: CpuTimes | None = None
        self.use: Kept[CpuUse] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.use.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add how many there are, once there is a machine to add it to."""
        use, host = self.use.last, inventory.host
        if use is None or host is None:
            return inventory
        return msgspec.structs.replace(inventory, host=msgspec.structs.replace(host, cpus=use.cpus))

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add use and load."""
        use = self.use.fresh
        if use is None:
            return heartbeat
        return msgspec.structs.replace(
            heartbeat, cpus=use.cpus, cpu_percent=use.busy_percent, load_average=use.load
        )

    async def read(self) -> str:
        """Read /proc/stat and /proc/loadavg."""
        times = read_stat(self._text("/proc/stat"))
        busy = None if self._before is None else busy_percent(self._before, times)
        self._before = times
        # The load's file costs the load alone, and its error is told.
        self.use.put(CpuUse(cpus=times.cpus, busy_percent=busy))
        load = read_loadavg(self._text("/proc/loadavg")).one
        self.use.put(CpuUse(cpus=times.cpus, busy_percent=busy, load=load))
        return counted(times.cpus, "processor")

    def _text(self, path: str) -> str:
        return self._files.read(Path(path)).decode(errors="replace")
