"""Reading a directory of small files as sysfs has them into what `parse.tree` reads from text."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from llmgw.base.errors import NotFound
from llmgw.model.record import Record

LARGEST = 4096
"""Bytes read of a file: an attribute of sysfs is at most a page."""

MOST = 20_000
"""Files read of a tree."""

HELPER = "llmgw_agent.host.tree_side"
"""The module of the helper process that answers `TreeOf`."""

_WILD = frozenset("*?[")


class TreeFiles(Protocol):
    """What of `llmgw.base.world.Files` a tree is read with."""

    def names(self, path: Path) -> tuple[str, ...]:
        """Return the sorted names in a directory; empty when it is not there."""
        ...

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        """Return at most `most` bytes from `offset` on.

        Raises:
            NotFound: there is no such file.
        """
        ...


def read_live(
    files: TreeFiles, root: Path, wanted: Sequence[str], most: int = LARGEST
) -> Mapping[str, str]:
    """Return the wanted files below `root` that could be read, by their paths from there.

    A file that is missing, that the kernel refuses (EINVAL, EIO: a sensor that sleeps, an empty
    place of a table), that this user may not read or that is not text costs itself. No directory is
    listed that no pattern leads through. Links are followed as far as a pattern names them, so that
    the loops of sysfs lead nowhere.

    A driver may let a read hang: where that can be, this is called in a helper process.

    Args:
        files: reads them.
        root: a directory; nothing is found when it is not there.
        wanted: patterns of paths, each part a name, or what `fnmatch` takes: `*/temp*_input`.
        most: bytes of each file. Some hardware does not bear that more is read than is needed.
    """
    found: dict[str, str] = {}
    for pattern in wanted:
        for name in _matching(files, root, "", tuple(pattern.split("/"))):
            if len(found) >= MOST:
                return found
            if name not in found and (text := _text(files, root / name, most)) is not None:
                found[name] = text
    return found


def _matching(files: TreeFiles, root: Path, above: str, parts: tuple[str, ...]) -> Iterator[str]:
    for name in _names(files, root / above, parts[0]):
        path = f"{above}/{name}" if above else name
        if len(parts) == 1:
            yield path
        else:
            yield from _matching(files, root, path, parts[1:])


def _names(files: TreeFiles, directory: Path, part: str) -> Sequence[str]:
    if _WILD.isdisjoint(part):
        return (part,)
    try:
        names = files.names(directory)
    except OSError:
        return ()
    return [name for name in names if fnmatchcase(name, part)]


def _text(files: TreeFiles, path: Path, most: int) -> str | None:
    try:
        data = files.read_part(path, 0, most)
    except (NotFound, OSError):
        return None
    return None if b"\0" in data else data.decode(errors="replace").strip()


class TreeOf(Record, frozen=True, kw_only=True):
    """The one request of the tree helper: `read_live` of a directory."""

    root: str
    wanted: tuple[str, ...]
    most: int = LARGEST


class Tree(Record, frozen=True, kw_only=True):
    """The files that could be read, by their paths from the root."""

    files: dict[str, str]
