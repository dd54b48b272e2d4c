"""The first bytes of a file of weights: what it is, whatever its name says."""

from llmgw.base.errors import Unreadable

GGUF = "gguf"
SAFETENSORS = "safetensors"

HEAD_BYTES = 64
"""As many bytes of a file's beginning as `kind_of` looks at."""

_NEWEST_GGUF = 3
_LARGEST_HEADER = 100 << 20
"""Of a safetensors file: the format's own limit."""

_TOLD = (
    (b"FUGG", "a GGUF file of the other byte order"),
    (b"lmgg", "a ggml file of the time before GGUF: convert it"),
    (b"fmgg", "a ggmf file of the time before GGUF: convert it"),
    (b"tjgg", "a ggjt file of the time before GGUF: convert it"),
    (b"PK\x03\x04", "a zip archive, as PyTorch checkpoints are: it may run code when loaded"),
    (b"\x80", "a pickle: it may run code when loaded"),
    (b"version https://git-lfs", "a Git LFS pointer: the file itself was never fetched"),
    (b"<", "a page of HTML or XML, not the file that was asked for"),
    (b"\x1f\x8b", "a gzip archive"),
)
"""What people mistake for weights, by how it begins."""


def kind_of(head: bytes, name: str) -> str:
    """Return `gguf` or `safetensors` for the first bytes of a file.

    Args:
        head: the first `HEAD_BYTES` bytes, or the whole file if it is shorter.
        name: what the file is called in the message.

    Raises:
        Unreadable: it is neither; the message says what it is instead, or how it begins.
    """
    if head.startswith(b"GGUF"):
        return _gguf(head, name)
    if _is_safetensors(head):
        return SAFETENSORS
    raise Unreadable(f"{name}: neither GGUF nor safetensors: {_told(head)}")


def _gguf(head: bytes, name: str) -> str:
    if len(head) < 8:
        raise Unreadable(f"{name}: a GGUF file that ends after {len(head)} bytes")
    version = int.from_bytes(head[4:8], "little")
    if not 1 <= version <= _NEWEST_GGUF:
        if 1 <= int.from_bytes(head[4:8], "big") <= _NEWEST_GGUF:
            raise Unreadable(f"{name}: a GGUF file of the other byte order")
        raise Unreadable(f"{name}: GGUF version {version}, known are 1 to {_NEWEST_GGUF}")
    return GGUF


def _is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    return len(head) > 8 and 2 <= length <= _LARGEST_HEADER and head[8:9] == b"{"


def _told(head: bytes) -> str:
    if not head:
        return "it is empty"
    for beginning, words in _TOLD:
        if head.startswith(beginning):
            return words
    return f"it begins with {head[:8]!r}"
