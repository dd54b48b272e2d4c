"""What a held model is made of, read from the headers of its files."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from llmgw.base.errors import Unreadable
from llmgw.formats import gguf_shape, hub_config
from llmgw.formats.gguf import read_gguf
from llmgw.formats.safetensors import LENGTH_BYTES, header_length, read_safetensors
from llmgw.model.shape import ModelShape

_CONFIG = "config.json"
_CONFIG_BYTES = 4 << 20
_KEPT = 1000

Seen = tuple[Path, int, int]
"""A file, its size and when it was changed: while these are the same it is not read again."""


def shape_of(path: Path, files: tuple[Path, ...]) -> ModelShape | None:
    """Return a set's shape; None where its headers can't be read.

    Args:
        path: the set: a GGUF file (of several parts the first), or a directory of safetensors.
        files: all files of the set.
    """
    try:
        if path.suffix == ".gguf":
            return _of_ggufs(_seen(file for file in files if _is_model(file)))
        config = path / _CONFIG
        return _of_safetensors((config, *_version(config)), _seen(files))
    except (OSError, Unreadable):
        return None


def _is_model(file: Path) -> bool:
    """Say whether a file is of the model: one that reads pictures may lie beside it."""
    return file.suffix == ".gguf" and not file.name.startswith("mmproj")


def _seen(files: Iterable[Path]) -> tuple[Seen, ...]:
    return tuple((file, *_version(file)) for file in sorted(files))


def _version(file: Path) -> tuple[int, int]:
    seen = file.stat()
    return seen.st_size, seen.st_mtime_ns


@lru_cache(maxsize=_KEPT)
def _of_ggufs(seen: tuple[Seen, ...]) -> ModelShape:
    """Read all parts: the first holds the metadata, each the tensors that are in it."""
    heads = []
    for file, _, _ in seen:
        with file.open("rb") as data:
            heads.append(read_gguf(data))
    return gguf_shape.shape_of(heads[0], tuple(one for head in heads for one in head.tensors))


@lru_cache(maxsize=_KEPT)
def _of_safetensors(config: Seen, seen: tuple[Seen, ...]) -> ModelShape:
    heads = []
    for file, _, _ in seen:
        with file.open("rb") as data:
            heads.append(read_safetensors(data.read(header_length(data.read(LENGTH_BYTES)))))
    with config[0].open("rb") as data:
        text = data.read(_CONFIG_BYTES + 1)
    if len(text) > _CONFIG_BYTES:
        raise Unreadable(f"{config[0]}: too long for a configuration")
    return hub_config.shape_of(text, heads)
