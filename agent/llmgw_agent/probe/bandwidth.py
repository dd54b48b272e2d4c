"""How fast this machine reads its memory: measured once, by a helper process, all cores at work."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.world import Files
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.tree import read_live
from llmgw_agent.parse.cpu_cache import Cache, last_cache
from llmgw_agent.parse.meminfo import read_meminfo
from llmgw_agent.probe.bandwidth_request import MeasureBandwidth, MeasuredBandwidth
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source

MODULE: Final = "llmgw_agent.probe.bandwidth_side"

_MIB = 1 << 20
_LEAST, _MOST, _MOST_OF_ONE = 128 * _MIB, 256 * _MIB, 512 * _MIB
"""Of one processor's share: less is read in so short a time that a worker which the kernel starts
late spoils a pass (with 64 MiB figures were a tenth lower on a busy machine)."""

_PAST = 4
"""How many times the cache is read: what is still in it from the pass before is little then."""

_MOST_WORKERS = 256
_ROOM = 10
"""A tenth of what is available may be used."""

_SETTLE = 5.0
_SILENCE = 30.0
_AGAIN = 600.0
_NEVER_AGAIN = 86_400.0

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CACHE_FILES = ("index*/size", "index*/shared_cpu_list")


class BandwidthProbe(Source):
    """The memory's bandwidth over all cores and of one.

    It is measured once a process, in the background, some seconds after the agent registered:
    heartbeats ask for it. It takes every core for a fraction of a second. The workers run at the
    agent's own priority, since at a lower one they would measure what others leave them; the kernel
    still gives the agent its turn within milliseconds, and heartbeats are the agent's.
    """

    name = "bandwidth"
    timeout = 60.0
    late = True

    def __init__(
        self, files: Files, helper: Helper, clock: Clock, *, cpus: Sequence[int] | None = None
    ) -> None:
        self._files = files
        self._helper = helper
        self._clock = clock
        self._cpus = cpus
        self._settled = False
        self.measured: Kept[MeasuredBandwidth] = Kept(clock)

    @property
    def again(self) -> float:
        """Return the seconds between two tries while it fails: each takes every core."""
        return _AGAIN

    @property
    def period(self) -> float:
        """Return the seconds until the next try: there is none after one that measured."""
        return _AGAIN if self.measured.last is None else _NEVER_AGAIN

    @property
    def age(self) -> float | None:
        """Return the seconds since the reading."""
        return self.measured.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add what was measured, once there is a machine to add it to."""
        last, host = self.measured.last, inventory.host
        if last is None or host is None:
            return inventory
        host = msgspec.structs.replace(
            host,
            mem_bandwidth_gbs=_gbs(last.rate),
            mem_bandwidth_core_gbs=_gbs(last.core_rate),
        )
        return msgspec.structs.replace(inventory, host=host)

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add what was measured: it stays true as long as this process runs."""
        last = self.measured.last
        if last is None:
            return heartbeat
        return msgspec.structs.replace(
            heartbeat,
            mem_bandwidth_gbs=_gbs(last.rate),
            mem_bandwidth_core_gbs=_gbs(last.core_rate),
        )

    async def read(self) -> str:
        """Measure, unless that was done."""
        if self.measured.last is None:
            if not self._settled:
                # The agent dials and registers meanwhile, and has its cores for it.
                await self._clock.sleep(_SETTLE)
                self._settled = True
            request = self._plan()
            if request is None:
                return "too little memory is free to measure its bandwidth"
            try:
                self.measured.put(
                    await self._helper.ask(request, MeasuredBandwidth, silence=_SILENCE)
                )
            finally:
                await self._helper.close()
        return _sentence(self.measured.last)

    async def close(self) -> None:
        """End the helper."""
        await self._helper.close()

    def _plan(self) -> MeasureBandwidth | None:
        text = self._files.read(Path("/proc/meminfo")).decode(errors="replace")
        available = read_meminfo(text).available_bytes
        cpus = self._cpus or sorted(os.sched_getaffinity(0))
        cache = last_cache(read_live(self._files, _CACHES, _CACHE_FILES))
        return None if available is None else plan(available, cpus, cache)


def plan(available: int, cpus: Sequence[int], cache: Cache | None) -> MeasureBandwidth | None:
    """Return what to measure; None when what may be used fits the caches.

    Args:
        available: bytes of memory that are free to use.
        cpus: the processors that this process may run on.
        cache: the last cache of one of them; None: not known.
    """
    step = -(-len(cpus) // _MOST_WORKERS)
    chosen = tuple(cpus[::step])
    cached = 0 if cache is None else cache.size_bytes
    own = 0 if cache is None else cached // max(1, min(cache.cpus, len(chosen)))
    room = available // _ROOM
    share = min(max(_LEAST, _PAST * own), max(_MOST, 2 * own), room // len(chosen))
    if share < max(2 * own, _MIB):
        return None
    left = room - share * (len(chosen) - 1)
    core = min(max(share, _PAST * cached), max(_MOST_OF_ONE, 2 * cached), left)
    return MeasureBandwidth(
        cpus=chosen, share_bytes=share, core_bytes=core if core >= 2 * cached else 0
    )


def _gbs(rate: float | None) -> float | None:
    return None if rate is None else round(rate / 1e9, 1)


def _sentence(measured: MeasuredBandwidth | None) -> str:
    if measured is None:
        return "not measured"
    core = "" if measured.core_rate is None else f", {_gbs(measured.core_rate)} GB/s on one core"
    return f"memory is read at {_gbs(measured.rate)} GB/s{core}"
