"""What models lie in directories that an operator named: only whole ones count."""

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from llmgw.base.errors import Unreadable
from llmgw.formats.gguf import read_gguf
from llmgw.formats.safetensors import LENGTH_BYTES, header_length, read_safetensors
from llmgw_agent.parse.weights_head import HEAD_BYTES, kind_of
from llmgw_agent.weights.cache import HeldSet
from llmgw_agent.weights.shape import shape_of

_DEPTH = 4
_ENTRIES = 20_000
"""Files looked at below one directory: a whole filer is no place for weights."""

_SPLIT = re.compile(
    r"(?P<stem>.+)-\d{5}-of-(?P<parts>\d{5})\.(?P<ending>gguf|safetensors)\Z", re.ASCII
)
_INDEX = ".safetensors.index.json"


def sets_below(directory: Path) -> tuple[HeldSet, ...]:
    """Return the whole models below a directory; none when it is not there.

    A GGUF file is one; splits are one when all are there; a directory of safetensors is one when
    every file of its index is there. Each file must have the size that its own header says.
    """
    found: list[HeldSet] = []
    for folder, names in _folders(directory):
        files = [folder / name for name in names]
        found.extend(_ggufs([f for f in files if f.suffix == ".gguf"]))
        indexes = [f for f in files if f.name.endswith(_INDEX)]
        whole = _safetensors(folder, [f for f in files if f.suffix == ".safetensors"], indexes)
        if whole is not None:
            found.append(whole)
    return tuple(sorted(found, key=lambda held: held.name))


def _folders(directory: Path) -> Iterator[tuple[Path, list[str]]]:
    looked = 0
    for root, folders, names in os.walk(directory):
        folder = Path(root)
        looked += len(names)
        if looked > _ENTRIES:
            return
        if len(folder.relative_to(directory).parts) >= _DEPTH:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield folder, sorted(names)


def _ggufs(files: list[Path]) -> Iterator[HeldSet]:
    sizes = {file.name: size for file in files if (size := whole_gguf(file)) is not None}
    for file in files:
        names = _all_splits(file.name)
        if file.name == names[0] and sizes.keys() >= set(names):
            total = sum(sizes[name] for name in names)
            shape = shape_of(file, tuple(file.with_name(name) for name in names))
            yield HeldSet(name=str(file), path=str(file), size_bytes=total, ours=False, shape=shape)


def _all_splits(name: str) -> tuple[str, ...]:
    """Return the names of all files that one is a part of, the first one first; else itself."""
    split = _SPLIT.match(name)
    if split is None:
        return (name,)
    stem, parts, ending = split["stem"], split["parts"], split["ending"]
    most = min(int(parts), _ENTRIES)
    return tuple(f"{stem}-{number:05}-of-{parts}.{ending}" for number in range(1, most + 1)) or (
        name,
    )


def _safetensors(folder: Path, files: list[Path], indexes: list[Path]) -> HeldSet | None:
    """Return what a folder holds as one model; None when it is no whole one.

    An index says which files it takes; a folder may have two, of one model in two forms. Without
    any, the files' names say of how many they are a part.
    """
    sizes = {file.name: size for file in files if (size := whole_safetensors(file)) is not None}
    if indexes:
        sets = [_indexed(index) for index in indexes]
    else:
        sets = [frozenset(name for file in files for name in _all_splits(file.name))]
    for wanted in sets:
        if wanted and wanted <= sizes.keys():
            total = sum(sizes[name] for name in wanted)
            shape = shape_of(folder, tuple(folder / name for name in wanted))
            return HeldSet(
                name=str(folder), path=str(folder), size_bytes=total, ours=False, shape=shape
            )
    return None


def _indexed(index: Path) -> frozenset[str]:
    """Return the files that an index names; empty, which is no model, when it can't be read."""
    try:
        return frozenset(json.loads(index.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()


def whole_gguf(file: Path) -> int | None:
    """Return a GGUF file's size when it is at least what its header says; else None."""
    return _whole(file, _read_gguf)


def whole_safetensors(file: Path) -> int | None:
    """Return a safetensors file's size when it is what its header says; else None."""
    return _whole(file, _read_safetensors)


def _whole(file: Path, read: Callable[[Path, int], bool]) -> int | None:
    try:
        seen = file.stat()
        whole = _known_whole(file, seen.st_size, seen.st_mtime_ns, read)
    except (OSError, Unreadable):
        return None
    return seen.st_size if whole else None


@lru_cache(maxsize=_ENTRIES)
def _known_whole(file: Path, size: int, _changed: int, read: Callable[[Path, int], bool]) -> bool:
    """Say whether a file is whole; one that did not change since is not read again."""
    return read(file, size)


def _read_gguf(file: Path, size: int) -> bool:
    with file.open("rb") as data:
        kind_of(data.read(HEAD_BYTES), file.name)
        data.seek(0)
        return size >= read_gguf(data).size_bytes


def _read_safetensors(file: Path, size: int) -> bool:
    with file.open("rb") as data:
        length = header_length(data.read(LENGTH_BYTES))
        return length < size and size == read_safetensors(data.read(length)).size_bytes
