"""One machine's files, in memory, on a disk that can be full."""

import errno
from collections.abc import Callable
from pathlib import Path

from llmgw.base.errors import NotFound
from llmgw.base.world import DiskSpace

Hook = Callable[[Path, bytes], None]


class Disk:
    """A machine's files; they outlive whatever runs on it.

    Args:
        total: bytes that it holds.

    Attributes:
        written: called after each file that was replaced.
        taken: bytes that somebody else took; a disk is full when nothing is left.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self.written: Hook = lambda path, data: None
        self._files: dict[str, bytearray] = {}
        """By path as text: hashing a `Path` anew each time costs more than all else here."""
        self._inside: dict[str, dict[str, None]] = {}
        self._used = 0

    @property
    def free(self) -> int:
        """Return the bytes that are left."""
        return max(0, self.total - self.taken - self._used)

    def put(self, path: Path, data: bytes) -> None:
        """Lay a file there, as the system does: it costs no space and nobody is told."""
        self._keep(path, bytearray(data))

    def append(self, path: Path, data: bytes) -> None:
        """Append to a file, as an engine does; on a full disk what it says is lost."""
        if len(data) <= self.free:
            known = self._files.get(str(path))
            if known is None:
                self._keep(path, bytearray(data))
            else:
                known += data
            self._used += len(data)

    def read(self, path: Path) -> bytes:
        """Return the content."""
        return bytes(self._known(path))

    def write(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file in one step."""
        # As on a disk: the new file is written whole before the old one goes.
        self._check_space(len(data), path)
        self._used += len(data) - len(self._files.get(str(path), b""))
        self._keep(path, bytearray(data))
        self.written(path, data)

    def remove(self, path: Path) -> None:
        """Remove a file or a whole directory."""
        for name in tuple(self._inside.get(str(path), ())):
            self.remove(path / name)
        known = self._files.pop(str(path), None)
        if known is not None:
            self._used -= len(known)
        self._inside.pop(str(path), None)
        self._inside.get(str(path.parent), {}).pop(path.name, None)

    def names(self, path: Path) -> tuple[str, ...]:
        """Return the sorted names in a directory."""
        return tuple(sorted(self._inside.get(str(path), ())))

    def size(self, path: Path) -> int | None:
        """Return a file's size; None when it is not there."""
        known = self._files.get(str(path))
        return None if known is None else len(known)

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        """Return at most `most` bytes from `offset` on."""
        known = self._known(path)
        return bytes(known[offset : offset + most]) if offset < len(known) else b""

    def empty(self, path: Path) -> None:
        """Cut a file to nothing in place."""
        known = self._files.get(str(path))
        if known:
            self._used -= len(known)
            del known[:]

    def space(self, path: Path) -> DiskSpace | None:
        """Return the disk's space."""
        return DiskSpace(total=self.total, free=self.free)

    def _known(self, path: Path) -> bytearray:
        try:
            return self._files[str(path)]
        except KeyError:
            raise NotFound(f"{path}: no such file") from None

    def _keep(self, path: Path, data: bytearray) -> None:
        if str(path) not in self._files:
            inner = path
            for outer in path.parents:
                known = self._inside.setdefault(str(outer), {})
                if inner.name in known:
                    break
                known[inner.name] = None
                inner = outer
        self._files[str(path)] = data

    def _check_space(self, needed: int, path: Path) -> None:
        if needed > self.free:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
