"""What models lie in directories that an operator named: only whole ones count."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.weights_head import HEAD_BYTES, kind_of
from llmgw_agent.weights.cache import HeldSet

_DEPTH = 4
_ENTRIES = 20_000
"""Files looked at below one directory: a whole filer is no place for weights."""

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf\Z")
_INDEX = "model.safetensors.index.json"
_LARGEST_HEADER = 64 << 20


def sets_below(directory: Path) -> tuple[HeldSet, ...]:
    """Return the whole models below a directory; none when it is not there.

    A GGUF file is one; splits are one when all are there; a directory of safetensors is one when
    every file is there with the size that its own header says.
    """
    found: list[HeldSet] = []
    for folder, names in _folders(directory):
        files = [folder / name for name in names]
        found.extend(_ggufs([f for f in files if f.suffix == ".gguf"]))
        whole = _safetensors(folder, [f for f in files if f.suffix == ".safetensors"])
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
    sizes = {file.name: size for file in files if (size := _gguf_size(file)) is not None}
    for file in files:
        if file.name not in sizes:
            continue
        split = _SPLIT.match(file.name)
        if split is None:
            yield HeldSet(name=str(file), path=str(file), size_bytes=sizes[file.name], ours=False)
        elif int(split["part"]) == 1:
            names = [
                f"{split['stem']}-{number:05}-of-{split['parts']}.gguf"
                for number in range(1, int(split["parts"]) + 1)
            ]
            if all(name in sizes for name in names):
                total = sum(sizes[name] for name in names)
                yield HeldSet(name=str(file), path=str(file), size_bytes=total, ours=False)


def _gguf_size(file: Path) -> int | None:
    try:
        with file.open("rb") as data:
            kind_of(data.read(HEAD_BYTES), file.name)
        return file.stat().st_size
    except (OSError, Unreadable):
        return None


def _safetensors(folder: Path, files: list[Path]) -> HeldSet | None:
    sizes = {file.name: size for file in files if (size := whole_safetensors(file)) is not None}
    wanted = _indexed(folder / _INDEX) if (folder / _INDEX).exists() else {f.name for f in files}
    if not wanted or not wanted <= sizes.keys():
        return None
    total = sum(sizes[name] for name in wanted)
    return HeldSet(name=str(folder), path=str(folder), size_bytes=total, ours=False)


def _indexed(index: Path) -> set[str]:
    """Return the files that an index names; empty, which is no model, when it can't be read."""
    try:
        return set(json.loads(index.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def whole_safetensors(file: Path) -> int | None:
    """Return a safetensors file's size when it is what its header says; else None."""
    try:
        size = file.stat().st_size
        with file.open("rb") as data:
            length = int.from_bytes(data.read(8), "little")
            if not 2 <= length <= min(_LARGEST_HEADER, size):
                return None
            header = json.loads(data.read(length))
        ends = [t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"]
        return size if size == 8 + length + max(ends, default=0) else None
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
