"""The header of a safetensors file: 8 bytes of length, then JSON. Hugging Face's own format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.base.errors import Unreadable

LARGEST_HEADER = 100 << 20
"""The format's own limit, in bytes."""
LENGTH_BYTES = 8
_LARGEST_FILE = 1 << 60
_METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class SafetensorsHead:
    """What a header says.

    Attributes:
        tensors: the bytes of each, by name.
        size_bytes: what the file has.
    """

    tensors: Mapping[str, int]
    size_bytes: int


def header_length(start: bytes) -> int:
    """Return how many bytes of header follow the first 8 of a file.

    Raises:
        Unreadable: they can't be the length of a header.
    """
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if len(start) < LENGTH_BYTES or not 2 <= length <= LARGEST_HEADER:
        raise Unreadable("not a safetensors file: it begins with no length of a header")
    return length


def read_safetensors(header: bytes) -> SafetensorsHead:
    """Return what a header says, given the bytes behind the length.

    Raises:
        Unreadable: it is not the JSON of a safetensors header.
    """
    try:
        said = json.loads(header)
        offsets = {
            name: tuple(int(end) for end in tensor["data_offsets"])
            for name, tensor in said.items()
            if name != _METADATA
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable("the header is none of safetensors") from error
    if any(len(pair) != 2 or not 0 <= pair[0] <= pair[1] for pair in offsets.values()):
        raise Unreadable("the header is none of safetensors: a tensor ends before it begins")
    if sum(pair[1] - pair[0] for pair in offsets.values()) > _LARGEST_FILE:
        raise Unreadable("the header is none of safetensors: larger than any file")
    return SafetensorsHead(
        tensors={name: pair[1] - pair[0] for name, pair in offsets.items()},
        size_bytes=LENGTH_BYTES
        + len(header)
        + max((pair[1] for pair in offsets.values()), default=0),
    )
