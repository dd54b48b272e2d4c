"""How long a GGUF file has to be, by its own header: what tells a whole one from half of one.

The format is llama.cpp's `docs/gguf.md`; the sizes of tensor types are those of `ggml.h` and
`ggml-common.h`. A header holds the whole vocabulary, so it is walked through, not read at once.
"""

import math
import struct
from collections.abc import Mapping
from typing import IO

from llmgw.base.errors import Unreadable

_TEXT, _ARRAY = 8, 9
_SCALARS: Mapping[int, int] = {
    **dict.fromkeys((0, 1, 7), 1),
    **dict.fromkeys((2, 3), 2),
    **dict.fromkeys((4, 5, 6), 4),
    **dict.fromkeys((10, 11, 12), 8),
}
"""Bytes of a value by its type's number."""

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
_MOST_ITEMS = 20_000_000
_MOST_DIMENSIONS = 8
_OLDEST = 2


def gguf_size(data: IO[bytes]) -> int:
    """Return the bytes that the file must have at least, given one open at its beginning.

    Raises:
        Unreadable: its header ends too early or holds what no header holds.
    """
    reader = _Reader(data)
    if reader.take(4) != b"GGUF":
        raise Unreadable("not a GGUF file")
    (version,) = reader.unpack("<I")
    if version < _OLDEST:
        raise Unreadable(f"a GGUF file of version {version}: nothing reads it any more")
    tensors, pairs = reader.unpack("<QQ")
    alignment = _alignment(reader, pairs)
    _check_count(tensors)
    end = max((_tensor_end(reader) for _ in range(tensors)), default=0)
    return -(-reader.at // alignment) * alignment + end


class _Reader:
    """Reads a header from its beginning on, and knows where it is."""

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data
        self.at = 0

    def unpack(self, form: str) -> tuple[int, ...]:
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

    def text(self) -> bytes:
        (length,) = self.unpack("<Q")
        _check_count(length)
        return self.take(length)


def _alignment(reader: _Reader, pairs: int) -> int:
    """Walk through the metadata; return what tensors are aligned to."""
    _check_count(pairs)
    alignment = 32
    for _ in range(pairs):
        name = reader.text()
        (kind,) = reader.unpack("<I")
        if name == _ALIGNMENT.encode() and kind == 4:
            (alignment,) = reader.unpack("<I")
        else:
            _skip_value(reader, kind)
    if not alignment:
        raise Unreadable(f"a GGUF header with {_ALIGNMENT} 0")
    return alignment


def _skip_value(reader: _Reader, kind: int) -> None:
    if kind == _TEXT:
        (length,) = reader.unpack("<Q")
        reader.skip(length)
    elif kind == _ARRAY:
        of, count = reader.unpack("<IQ")
        _check_count(count)
        if of in _SCALARS:
            reader.skip(_SCALARS[of] * count)
        elif of == _TEXT:
            for _ in range(count):
                _skip_value(reader, _TEXT)
        else:
            raise Unreadable(f"a GGUF header with an array of type {of}")
    elif kind in _SCALARS:
        reader.skip(_SCALARS[kind])
    else:
        raise Unreadable(f"a GGUF header with a value of type {kind}")


def _tensor_end(reader: _Reader) -> int:
    """Return where a tensor ends, counted from where tensors begin."""
    reader.text()
    (dimensions,) = reader.unpack("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise Unreadable(f"a GGUF tensor of {dimensions} dimensions")
    sizes = reader.unpack(f"<{dimensions}Q")
    kind, offset = reader.unpack("<IQ")
    if kind not in _TENSORS:
        return offset + 1
    block, size = _TENSORS[kind]
    return offset + -(-math.prod(sizes) // block) * size


def _check_count(count: int) -> None:
    if count > _MOST_ITEMS:
        raise Unreadable(f"a GGUF header that counts {count} of something")
