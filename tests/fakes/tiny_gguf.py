"""A language model of half a megabyte, made of random numbers: enough for a real engine to run.

Its weights are 32-bit, which every build of llama.cpp computes on every processor. It writes
printable ASCII only, so that whatever it says is valid text.
"""

import random
import struct
from collections.abc import Sequence
from pathlib import Path

_EMBED, _LAYERS, _HEADS, _FORWARD, _CONTEXT = 64, 2, 4, 128, 2048
_U32, _F32, _TEXT, _ARRAY, _I32 = 4, 6, 8, 9, 5
_NORMAL, _CONTROL = 1, 3
_ALIGNMENT = 32


def write_tiny_model(path: Path, seed: int = 1) -> Path:
    """Write the model; the same seed gives the same bytes."""
    rng = random.Random(seed)
    vocabulary = [*_byte_characters(), "\u0120t", "<|endoftext|>"]
    metadata = _metadata(vocabulary)
    tensors = _tensors(len(vocabulary))
    infos, data = [], bytearray()
    for name, shape in tensors:
        count = shape[0] if len(shape) == 1 else shape[0] * shape[1]
        infos.append(
            _text(name)
            + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            + struct.pack("<IQ", 0, len(data))
        )
        norm = len(shape) == 1
        values = [1.0] * count if norm else [rng.gauss(0.0, 0.1) for _ in range(count)]
        data += _aligned(struct.pack(f"<{count}f", *values))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    path.write_bytes(_aligned(head + b"".join(metadata) + b"".join(infos)) + data)
    return path


def _metadata(vocabulary: Sequence[str]) -> list[bytes]:
    last = len(vocabulary) - 1
    kinds = [_NORMAL if _printable(token) else _CONTROL for token in vocabulary]
    return [
        _pair("general.architecture", _TEXT, _text("llama")),
        _pair("general.name", _TEXT, _text("tiny-random")),
        _pair("general.file_type", _U32, struct.pack("<I", 0)),
        _pair("llama.context_length", _U32, struct.pack("<I", _CONTEXT)),
        _pair("llama.embedding_length", _U32, struct.pack("<I", _EMBED)),
        _pair("llama.block_count", _U32, struct.pack("<I", _LAYERS)),
        _pair("llama.feed_forward_length", _U32, struct.pack("<I", _FORWARD)),
        _pair("llama.attention.head_count", _U32, struct.pack("<I", _HEADS)),
        _pair("llama.attention.head_count_kv", _U32, struct.pack("<I", _HEADS)),
        _pair("llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", 1e-5)),
        _pair("llama.rope.dimension_count", _U32, struct.pack("<I", _EMBED // _HEADS)),
        _pair("llama.vocab_size", _U32, struct.pack("<I", len(vocabulary))),
        _pair("tokenizer.ggml.model", _TEXT, _text("gpt2")),
        _pair("tokenizer.ggml.pre", _TEXT, _text("gpt-2")),
        _pair("tokenizer.ggml.tokens", _ARRAY, _texts(vocabulary)),
        _pair(
            "tokenizer.ggml.token_type",
            _ARRAY,
            struct.pack(f"<IQ{len(kinds)}i", _I32, len(kinds), *kinds),
        ),
        _pair("tokenizer.ggml.merges", _ARRAY, _texts(["\u0120 t"])),
        _pair("tokenizer.ggml.eos_token_id", _U32, struct.pack("<I", last)),
        _pair("tokenizer.ggml.bos_token_id", _U32, struct.pack("<I", last)),
    ]


def _tensors(words: int) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (_EMBED, words)),
        ("output_norm.weight", (_EMBED,)),
        ("output.weight", (_EMBED, words)),
    ]
    for layer in range(_LAYERS):
        square = ("attn_q", "attn_k", "attn_v", "attn_output")
        found += [(f"blk.{layer}.{name}.weight", (_EMBED,)) for name in ("attn_norm", "ffn_norm")]
        found += [(f"blk.{layer}.{name}.weight", (_EMBED, _EMBED)) for name in square]
        found += [
            (f"blk.{layer}.{name}.weight", (_EMBED, _FORWARD)) for name in ("ffn_gate", "ffn_up")
        ]
        found.append((f"blk.{layer}.ffn_down.weight", (_FORWARD, _EMBED)))
    return found


def _byte_characters() -> list[str]:
    """Return the characters by which byte-level tokenizers write the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


def _printable(token: str) -> bool:
    return all(char == "\u0120" or 33 <= ord(char) < 127 for char in token)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _texts(texts: Sequence[str]) -> bytes:
    return struct.pack("<IQ", _TEXT, len(texts)) + b"".join(map(_text, texts))


def _pair(name: str, kind: int, value: bytes) -> bytes:
    return _text(name) + struct.pack("<I", kind) + value


def _aligned(raw: bytes) -> bytes:
    return raw + b"\0" * (-len(raw) % _ALIGNMENT)
