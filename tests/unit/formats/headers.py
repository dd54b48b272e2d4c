"""Headers of files of weights, made byte by byte."""

import io
import json
import struct
from collections.abc import Mapping, Sequence

Said = int | float | bool | str | Sequence[int]


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words.encode())) + words.encode()


def pair(name: str, value: Said) -> bytes:
    match value:
        case bool():
            return text(name) + struct.pack("<I?", 7, value)
        case int():
            return text(name) + struct.pack("<II", 4, value)
        case float():
            return text(name) + struct.pack("<If", 6, value)
        case str():
            return text(name) + struct.pack("<I", 8) + text(value)
        case _:
            return text(name) + _array(value)


def _array(value: Sequence[int]) -> bytes:
    if all(isinstance(one, bool) for one in value):
        return struct.pack(f"<IIQ{len(value)}?", 9, 7, len(value), *value)
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + sizes + struct.pack("<IQ", kind, offset)


def gguf(
    pairs: Mapping[str, Said],
    tensors: Sequence[bytes] = (),
    version: int = 3,
) -> io.BytesIO:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    said = b"".join(pair(name, value) for name, value in pairs.items())
    return io.BytesIO(head + said + b"".join(tensors))


def safetensors(tensors: dict[str, int]) -> bytes:
    """Return a header that holds tensors of so many bytes each."""
    said: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, size in tensors.items():
        said[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    return json.dumps(said).encode()
