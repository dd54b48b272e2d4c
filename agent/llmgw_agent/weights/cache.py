"""llmgw's own directory of weights: what is in it, and what may be removed from it.

A set lies in a directory that is named by a hash of its source. It counts when its marker is there
and every file has the size that the marker says; it is made under another name and renamed.
"""

import shutil
from pathlib import Path

import msgspec

from llmgw.base.errors import Refused
from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.record import Record
from llmgw.model.shape import ModelShape
from llmgw.model.weights import is_cache_name
from llmgw_agent.host.lock import try_lock
from llmgw_agent.weights.shape import shape_of

MARKER = "llmgw.json"
PARTIAL = ".partial"
LOCK = ".lock"


class HeldFile(Record, frozen=True, kw_only=True):
    """A file of a set."""

    name: str
    size_bytes: int
    sha256: str | None = None


class Marker(Record, frozen=True, kw_only=True):
    """What makes a directory a set of weights. `at`: seconds since the epoch."""

    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource
    files: tuple[HeldFile, ...]
    at: float


class HeldSet(Record, frozen=True, kw_only=True):
    """A set of weights that was found. `name`: the cache name, or the path of an operator's."""

    name: str
    path: str
    size_bytes: int
    ours: bool
    shape: ModelShape | None = None


def read_marker(directory: Path) -> Marker | None:
    """Return the marker of a set whose files are all there with their sizes; None for no set."""
    try:
        marker = msgspec.json.decode((directory / MARKER).read_bytes(), type=Marker)
    except (OSError, msgspec.DecodeError):
        return None
    for file in marker.files:
        path = directory / file.name
        try:
            if path.stat().st_size != file.size_bytes:
                return None
        except OSError:
            return None
    return marker if marker.files else None


def set_path(cache: Path, name: str) -> Path | None:
    """Return the first file of the complete set of that name; None when it is not held."""
    marker = read_marker(cache / name)
    return None if marker is None else cache / name / marker.files[0].name


def held_sets(cache: Path) -> tuple[HeldSet, ...]:
    """Return the complete sets in llmgw's own directory."""
    found = []
    for name in sorted(_names(cache)):
        marker = read_marker(cache / name) if is_cache_name(name) else None
        if marker is not None:
            files = tuple(cache / name / file.name for file in marker.files)
            found.append(
                HeldSet(
                    name=name,
                    path=str(files[0]),
                    size_bytes=sum(file.size_bytes for file in marker.files),
                    ours=True,
                    shape=shape_of(files[0], files),
                )
            )
    return tuple(found)


def finish(work: Path, cache: Path, name: str, marker: Marker) -> Path:
    """Turn a directory of work into the set of that name; return its first file."""
    (work / MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(marker)))
    target = cache / name
    if target.exists():
        # There, but no set (a file is missing or has another size): the new one takes its place.
        shutil.rmtree(target)
    work.rename(target)
    return target / marker.files[0].name


def remove_set(cache: Path, name: str, in_use: frozenset[str]) -> int:
    """Remove a set that llmgw fetched; return the bytes that it took.

    Raises:
        Refused: the name is not one of the cache, leaves it or is a link, the set is in use, or
            there is nothing of that name that llmgw made.
    """
    if not is_cache_name(name):
        raise Refused(f"{name!r}: not a name of llmgw's cache")
    if name in in_use:
        raise Refused(f"{name}: in use by a running shard")
    directory = cache / name
    if directory.is_symlink() or directory.resolve().parent != cache.resolve():
        raise Refused(f"{name}: a link, or not inside {cache}")
    marker = read_marker(directory)
    if marker is None:
        raise Refused(f"{name}: nothing there that llmgw fetched")
    lock = try_lock(cache / f"{name}{LOCK}")
    if lock is None:
        raise Refused(f"{name}: being fetched at this moment")
    try:
        # Under the name of unfinished work first: what is left of a removal that was cut off is
        # then no set, and the next fetch clears it away.
        doomed = cache / f"{name}{PARTIAL}"
        shutil.rmtree(doomed, ignore_errors=True)
        directory.rename(doomed)
        shutil.rmtree(doomed)
    finally:
        lock.release()
    return sum(file.size_bytes for file in marker.files)


def _names(directory: Path) -> list[str]:
    try:
        return [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
