"""What each engine's process group uses: processor cores and resident memory, from /proc."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.units import counted
from llmgw.base.world import Files
from llmgw.model.node import Heartbeat
from llmgw.model.shard import ShardUse
from llmgw_agent.parse import plausible
from llmgw_agent.parse.engine_metrics import EngineUse
from llmgw_agent.parse.proc_stat import ProcessUse, read_process
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source

_AT_ONCE = 200
"""Processes looked at before others may run: a machine can have many thousands."""

Groups = Callable[[], Mapping[int, tuple[str, int]]]
"""Returns the process groups of this agent's own engines: replica and rank by group."""


class ShardsProbe(Source):
    """Use of the engines' process groups since the reading before."""

    name = "shards"
    period = 5.0
    timeout = 10.0

    def __init__(
        self,
        groups: Groups,
        files: Files,
        clock: Clock,
        *,
        ticks_per_second: int | None = None,
        page_bytes: int | None = None,
        uses: Callable[[], Mapping[tuple[str, int], EngineUse]] = dict,
    ) -> None:
        self._groups = groups
        self._uses = uses
        self._files = files
        self._clock = clock
        self._ticks_per_second = ticks_per_second or os.sysconf("SC_CLK_TCK")
        self._page_bytes = page_bytes or os.sysconf("SC_PAGE_SIZE")
        self._before: dict[int, ProcessUse] = {}
        self._before_at: float | None = None
        self.use: Kept[tuple[ShardUse, ...]] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.use.age

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add what each engine uses."""
        return msgspec.structs.replace(heartbeat, shards=self.use.fresh)

    async def read(self) -> str:
        """Read /proc/PID/stat of every process, when there are engines at all."""
        groups = self._groups()
        now = self._clock.monotonic()
        processes = await self._processes(groups) if groups else {}
        passed = None if self._before_at is None else now - self._before_at
        self.use.put(
            tuple(
                self._use(group, replica, rank, processes, passed)
                for group, (replica, rank) in groups.items()
            )
        )
        self._before, self._before_at = processes, now
        return counted(len(groups), "engine")

    async def _processes(self, groups: Mapping[int, tuple[str, int]]) -> dict[int, ProcessUse]:
        found = {}
        names = [name for name in self._files.names(Path("/proc")) if name.isdecimal()]
        for place, name in enumerate(names, 1):
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                text = self._files.read(Path("/proc") / name / "stat").decode(errors="replace")
                use = read_process(text)
            except (LlmgwError, OSError):
                continue  # It ended meanwhile.
            if use.group in groups and use.state not in "ZX":
                found[use.pid] = use
        return found

    def _use(
        self,
        group: int,
        replica: str,
        rank: int,
        processes: Mapping[int, ProcessUse],
        passed: float | None,
    ) -> ShardUse:
        members = [use for use in processes.values() if use.group == group]
        said = self._uses().get((replica, rank), EngineUse())
        if not members:
            return ShardUse(replica=replica, rank=rank)
        return ShardUse(
            replica=replica,
            rank=rank,
            requests_running=said.running,
            requests_waiting=said.waiting,
            cache_used=said.cache_used,
            cpu_cores=self._cores(members, passed),
            memory_bytes=plausible.size(sum(use.pages for use in members) * self._page_bytes),
        )

    def _cores(self, members: list[ProcessUse], passed: float | None) -> float | None:
        """Return the cores in use on average; None while there is no reading before this one."""
        known = any(use.pid in self._before for use in members)
        if not passed or not known:
            return None
        ticks = 0
        for use in members:
            before = self._before.get(use.pid)
            earlier = before.ticks if before is not None else 0
            # Fewer ticks than before: the pid belongs to another process now.
            ticks += use.ticks - earlier if use.ticks >= earlier else use.ticks
        return ticks / self._ticks_per_second / passed
