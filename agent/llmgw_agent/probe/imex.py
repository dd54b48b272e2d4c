"""The NVLink domain that a machine's cards are in, and nvidia-imex, which opens it."""

import asyncio
import re
from pathlib import Path
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound
from llmgw.base.units import counted
from llmgw.base.world import Files
from llmgw.model.fabric import NvlinkDomain
from llmgw.model.node import Inventory
from llmgw.model.record import Record
from llmgw_agent.parse.imex import CHANNELS, NvidiaDevices, read_devices, read_nodes
from llmgw_agent.parse.nvidia_smi_fabric import is_cluster
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.smi import OFTEN, SELDOM
from llmgw_agent.probe.source import Source

_PROGRAM: Final = "nvidia-imex"
_PROC: Final = Path("/proc")
_NODES: Final = Path("/etc/nvidia-imex/nodes_config.cfg")
_CHANNEL: Final = re.compile(r"channel(\d{1,9})\Z")
_AT_ONCE: Final = 200
"""Processes looked at before others may run: a machine can have many thousands."""


class ImexSeen(Record, frozen=True, kw_only=True):
    """What one look found."""

    running: bool
    channels: tuple[str, ...] = ()
    nodes: int | None = None
    """How many machines its configuration names; None: it has none in the usual place."""

    @property
    def is_there(self) -> bool:
        """Say whether there is any sign of it."""
        return self.running or bool(self.channels) or self.nodes is not None


class ImexProbe(Source):
    """Whether nvidia-imex runs, whoever started it, and which channels it can hand out.

    It stands behind the source of the cards' fabrics, whose cluster it takes over.
    """

    name = "imex"
    timeout = 30.0

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._seen: Kept[ImexSeen] = Kept(clock)
        self._pid: str | None = None
        self._told = False

    @property
    def period(self) -> float:
        """Return the seconds between two looks."""
        return SELDOM if self._seen.last is None else OFTEN

    @property
    def age(self) -> float | None:
        """Return the seconds since the last look."""
        return self._seen.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the domain: of a machine that has one, or had one since this agent started."""
        seen = self._seen.fresh
        cluster, clique = domain_of(inventory)
        if cluster is None and not self._told and (seen is None or not seen.is_there):
            return inventory
        # What was told once stays until something else is told: it must be taken back in words.
        self._told = True
        return msgspec.structs.replace(
            inventory,
            nvlink_domain=NvlinkDomain(
                cluster_uuid=cluster,
                clique_id=clique,
                imex_running=None if seen is None else seen.running,
                imex_channels=None if seen is None else seen.channels,
            ),
        )

    async def read(self) -> str:
        """Look for the driver's channels, and where it has any for the program."""
        devices = self._devices()
        if not devices.driver and self._seen.last is None:
            return "no NVIDIA driver is loaded"
        has_channels = devices.imex_major is not None
        seen = ImexSeen(
            running=has_channels and await self._runs(),
            channels=self._channels() if has_channels else (),
            nodes=self._nodes(),
        )
        self._seen.put(seen)
        if not seen.is_there:
            return "no sign of nvidia-imex"
        runs = "runs" if seen.running else "does not run"
        return f"nvidia-imex {runs}, {counted(len(seen.channels), 'channel')}"

    def _devices(self) -> NvidiaDevices:
        text = self._text(Path("/proc/devices"))
        return NvidiaDevices() if text is None else read_devices(text)

    def _channels(self) -> tuple[str, ...]:
        names = self._files.names(Path("/dev") / CHANNELS)
        numbers = {int(match[1]): name for name in names if (match := _CHANNEL.match(name))}
        return tuple(numbers[number] for number in sorted(numbers))

    def _nodes(self) -> int | None:
        text = self._text(_NODES)
        return None if text is None else len(read_nodes(text))

    async def _runs(self) -> bool:
        if self._pid is not None and self._is_it(self._pid):
            return True
        self._pid = None
        pids = [name for name in self._files.names(_PROC) if name.isdecimal()]
        for place, pid in enumerate(pids):
            if self._is_it(pid):
                self._pid = pid
                return True
            if place % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        return False

    def _is_it(self, pid: str) -> bool:
        return self._text(_PROC / pid / "comm") == f"{_PROGRAM}\n"

    def _text(self, path: Path) -> str | None:
        try:
            return self._files.read(path).decode(errors="replace")
        except (NotFound, OSError):
            return None  # a process that ended meanwhile, a file that only root may read


def domain_of(inventory: Inventory) -> tuple[str | None, int | None]:
    """Return cluster and clique of the machine's cards; None where they differ or have none."""
    fabrics = [device.nvlink for device in inventory.devices or () if device.nvlink is not None]
    found = {(one.cluster_uuid, one.clique_id) for one in fabrics if is_cluster(one.cluster_uuid)}
    clusters = {cluster for cluster, _ in found}
    cliques = {clique for _, clique in found}
    if len(clusters) != 1:
        return None, None
    return clusters.pop(), cliques.pop() if len(cliques) == 1 else None
