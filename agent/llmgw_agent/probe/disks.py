"""Free space per filesystem, asked by a helper: a network filesystem may not answer."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.units import counted
from llmgw.base.world import Files
from llmgw.model.node import Filesystem, Heartbeat, Inventory
from llmgw_agent.host.disk import Space, SpaceOf
from llmgw_agent.host.helper import Helper
from llmgw_agent.parse import plausible
from llmgw_agent.parse.mounts import SHARED_TYPES, Mount, mount_of, read_mountinfo
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source

_SILENCE = 5.0


class DisksProbe(Source):
    """The filesystems that this node's directories lie on.

    All directories share one helper. One that did not answer gets a helper of its own from then on,
    so that a dead filer costs its own directories alone.

    Args:
        directories: whose space matters; one that is not there is left out.
        files: reads the mount table, which never blocks.
        new_helper: makes a disk helper.
        clock: the time.
        shared_types: filesystem types that several machines see, beside the known ones.
    """

    name = "disks"
    period = 5.0
    timeout = 60.0

    def __init__(
        self,
        directories: Sequence[Path],
        files: Files,
        new_helper: Callable[[], Helper],
        clock: Clock,
        *,
        shared_types: Sequence[str] = (),
    ) -> None:
        self._files = files
        self._new_helper = new_helper
        self._helper = new_helper()
        self._own_helpers: dict[str, Helper] = {}
        self._shared_types = SHARED_TYPES | frozenset(shared_types)
        self._spaces = {str(path): Kept[Space](clock) for path in directories}
        self.filesystems: Kept[tuple[Filesystem, ...]] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.filesystems.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the filesystems."""
        return msgspec.structs.replace(inventory, filesystems=self.filesystems.last)

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add their space."""
        return msgspec.structs.replace(heartbeat, filesystems=self.filesystems.fresh)

    async def read(self) -> str:
        """Ask for every directory's space: those with a helper of their own wait for nobody."""
        apart = [path for path in self._spaces if path in self._own_helpers]
        together = [path for path in self._spaces if path not in self._own_helpers]
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(self._ask_all(paths))
                for paths in (together, *([path] for path in apart))
            ]
        troubles = [trouble for task in asked for trouble in task.result()]
        mounts = self._mounts()
        known = {path: kept.fresh for path, kept in self._spaces.items()}
        present = {path: space for path, space in known.items() if space is not None}
        self.filesystems.put(filesystems(present, mounts, self._shared_types))
        if troubles:
            raise Unreadable("; ".join(troubles))
        return counted(len(self.filesystems.last or ()), "filesystem")

    def shared(self, path: str) -> bool | None:
        """Say whether several machines see a path; None when it is not known."""
        mount = mount_of(path, self._mounts())
        return None if mount is None else mount.type in self._shared_types

    async def close(self) -> None:
        """End the helpers."""
        for helper in (self._helper, *self._own_helpers.values()):
            await helper.close()

    async def _ask_all(self, paths: Sequence[str]) -> list[str]:
        """Ask for one directory after the other; return what went wrong, in words."""
        return [trouble for path in paths if (trouble := await self._ask(path)) is not None]

    async def _ask(self, path: str) -> str | None:
        """Ask for one directory; return what went wrong, in words."""
        helper = self._own_helpers.get(path, self._helper)
        try:
            space = await helper.ask(SpaceOf(path=path), Space, silence=_SILENCE)
        except LlmgwError as error:
            if path not in self._own_helpers:
                self._own_helpers[path] = self._new_helper()
            return f"{path}: {error.message}"
        self._spaces[path].put(space)
        return None

    def _mounts(self) -> tuple[Mount, ...]:
        try:
            text = self._files.read(Path("/proc/self/mountinfo")).decode(errors="replace")
            return read_mountinfo(text)
        except (NotFound, Unreadable):
            return ()


def filesystems(
    spaces: dict[str, Space], mounts: tuple[Mount, ...], shared_types: frozenset[str]
) -> tuple[Filesystem, ...]:
    """Return one record a filesystem, however many directories lie on it.

    A directory that is missing is left out; one whose mount is not known stands for itself.
    """
    found: dict[str, Filesystem] = {}
    for path, space in spaces.items():
        if space.real is None:
            continue
        mount = mount_of(space.real, mounts)
        key = path if mount is None else mount.device
        seen = found.get(key)
        found[key] = Filesystem(
            mount=path if mount is None else (seen.mount if seen else mount.path),
            type=None if mount is None else mount.type,
            shared=None if mount is None else mount.type in shared_types,
            total_bytes=plausible.size(space.total_bytes),
            free_bytes=plausible.size(space.free_bytes),
            directories=(*(seen.directories if seen else ()), path),
        )
    return tuple(found.values())
