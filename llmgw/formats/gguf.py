"""The header of a GGUF file: what the model is, and how long the file has to be.

The format is llama.cpp's `docs/gguf.md`; the sizes of tensor types are those of `ggml.h` and
`ggml-common.h`. A header holds the whole vocabulary, so it is walked through, not read at once.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from llmgw.base.errors import Unreadable

Value = int | float | bool | str | tuple[int | float | bool, ...]

_TEXT, _ARRAY = 8, 9
_SCALARS: Mapping[int, str] = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
"""How a value of each type is packed, by the type's number."""

_TENSORS: Mapping[int, tuple[int, int]] = {
    0: (1, 4),
    1: (1, 2),
    2: (32, 18),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
    8: (32, 34),
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    15: (256, 292),
    16: (256, 66),
    17: (256, 74),
    18: (256, 98),
    19: (256, 50),
    20: (32, 18),
    21: (256, 110),
    22: (256, 82),
    23: (256, 136),
    24: (1, 1),
    25: (1, 2),
    26: (1, 4),
    27: (1, 8),
    28: (1, 8),
    29: (256, 56),
    30: (1, 2),
    34: (256, 54),
    35: (256, 66),
    39: (32, 17),
}
"""Weights in a block and its bytes, by the number of a tensor's type. New ones come and are no
error: of such a tensor it is only known where it begins."""

_ALIGNMENT = "general.alignment"
_TOKENIZER = "tokenizer."
_MOST_ITEMS = 20_000_000
_MOST_KEPT = 4096
"""Numbers of an array that is kept: one a layer, not one a word of the vocabulary."""
_LONGEST_NAME = 64 << 10
_MOST_DIMENSIONS = 8
_OLDEST = 2
_LARGEST_FILE = 1 << 62


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor. `size_bytes` is None when its type is newer than this reader."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class GgufHead:
    """What a header says.

    Attributes:
        version: of the format.
        values: the metadata but the tokenizer's: scalars, and arrays of numbers that are short.
        tensors: in the order of the file.
        size_bytes: what the file must have at least.
    """

    version: int
    values: Mapping[str, Value]
    tensors: tuple[GgufTensor, ...]
    size_bytes: int


def read_gguf(data: IO[bytes]) -> GgufHead:
    """Return the header of a file that is open at its beginning.

    Raises:
        Unreadable: it ends too early or holds what no header holds.
    """
    reader = _Reader(data)
    if reader.take(4) != b"GGUF":
        raise Unreadable("not a GGUF file")
    (version,) = reader.unpack("<I")
    if version < _OLDEST:
        raise Unreadable(f"a GGUF file of version {version}: nothing reads it any more")
    tensors, pairs = reader.unpack("<QQ")
    values = _values(reader, int(pairs))
    alignment = values.get(_ALIGNMENT, 32)
    if not isinstance(alignment, int) or isinstance(alignment, bool) or alignment < 1:
        raise Unreadable(f"a GGUF header with {_ALIGNMENT} {alignment!r}")
    _check_count(int(tensors))
    found = tuple(_tensor(reader) for _ in range(int(tensors)))
    begins = -(-reader.at // alignment) * alignment
    end = max((one.offset + (one.size_bytes or 1) for one in found), default=0)
    if end > _LARGEST_FILE:
        raise Unreadable(f"a GGUF header with a tensor that ends after {end:.0e} bytes")
    return GgufHead(int(version), values, found, begins + end)


class _Reader:
    """Reads a header from its beginning on, and knows where it is."""

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data
        self.at = 0

    def unpack(self, form: str) -> tuple[int | float | bool, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def take(self, count: int) -> bytes:
        data = self._data.read(count)
        if len(data) < count:
            raise Unreadable(f"a GGUF header that ends after {self.at + len(data)} bytes")
        self.at += count
        return data

    def skip(self, count: int) -> None:
        if count > _MOST_ITEMS * 8:
            raise Unreadable("a GGUF header with an endless value")
        self._data.seek(count, 1)
        self.at += count

    def count(self) -> int:
        (length,) = self.unpack("<Q")
        _check_count(int(length))
        return int(length)

    def text(self) -> str:
        length = self.count()
        if length > _LONGEST_NAME:
            raise Unreadable(f"a GGUF header with a name of {length} bytes")
        return self.take(length).decode(errors="replace")


def _values(reader: _Reader, pairs: int) -> dict[str, Value]:
    """Walk through the metadata and return what is worth keeping of it."""
    _check_count(pairs)
    values: dict[str, Value] = {}
    for _ in range(pairs):
        name = reader.text()
        (kind,) = reader.unpack("<I")
        value = _value(reader, int(kind), keep=not name.startswith(_TOKENIZER))
        if value is not None:
            values[name] = value
    return values


def _value(reader: _Reader, kind: int, *, keep: bool) -> Value | None:
    """Return a value; None for one that is passed over."""
    if kind == _TEXT:
        length = reader.count()
        if keep and length <= _LONGEST_NAME:
            return reader.take(length).decode(errors="replace")
        reader.skip(length)
        return None
    if kind == _ARRAY:
        return _array(reader, keep=keep)
    if kind not in _SCALARS:
        raise Unreadable(f"a GGUF header with a value of type {kind}")
    (value,) = reader.unpack(_SCALARS[kind])
    return value if keep else None


def _array(reader: _Reader, *, keep: bool) -> Value | None:
    of, count = (int(one) for one in reader.unpack("<IQ"))
    _check_count(count)
    if of == _TEXT:
        for _ in range(count):
            reader.skip(reader.count())
        return None
    if of not in _SCALARS:
        raise Unreadable(f"a GGUF header with an array of type {of}")
    form = _SCALARS[of]
    if keep and count <= _MOST_KEPT:
        return tuple(reader.unpack(f"<{count}{form[1]}"))
    reader.skip(struct.calcsize(form) * count)
    return None


def _tensor(reader: _Reader) -> GgufTensor:
    name = reader.text()
    (dimensions,) = reader.unpack("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise Unreadable(f"a GGUF tensor of {dimensions} dimensions")
    shape = tuple(int(size) for size in reader.unpack(f"<{dimensions}Q"))
    kind, offset = (int(one) for one in reader.unpack("<IQ"))
    size = None
    if kind in _TENSORS:
        block, block_bytes = _TENSORS[kind]
        size = -(-math.prod(shape) // block) * block_bytes
    return GgufTensor(name, shape, kind, offset, size)


def _check_count(count: int) -> None:
    if count > _MOST_ITEMS:
        raise Unreadable(f"a GGUF header that counts {count} of something")
