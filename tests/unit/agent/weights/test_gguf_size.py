"""How long a GGUF file has to be."""

import io
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.weights.gguf_size import gguf_size

TINY = (Path(__file__).parents[3] / "fixtures" / "gguf" / "tiny-v3.gguf").read_bytes()
ALIGNED_TO_0 = struct.pack("<II", 4, 0)


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def tensor(kind: int, sizes: tuple[int, ...], offset: int) -> bytes:
    shape = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text("t") + shape + struct.pack("<IQ", kind, offset)


def gguf(pairs: list[bytes], tensors: list[bytes], version: int = 3) -> io.BytesIO:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    return io.BytesIO(head + b"".join(pairs) + b"".join(tensors))


def test_the_recorded_file_has_the_size_that_its_header_says():
    # One tensor of 4 x 8 32-bit floats, 128 bytes, behind a header padded to 320.
    assert gguf_size(io.BytesIO(TINY)) == 448 == len(TINY)


def test_the_last_tensors_end_counts_whatever_order_they_come_in():
    # 512 weights of Q4_K: 2 blocks of 144 bytes from 64 on; 32 of Q8_0: 34 bytes from 0 on.
    whole = gguf([], [tensor(12, (512,), 64), tensor(8, (32,), 0)])
    header = len(whole.getvalue())
    assert header == 24 + 2 * (9 + 4 + 8 + 12)
    assert gguf_size(whole) == 96 + 64 + 288


def test_tensors_begin_where_the_headers_alignment_says():
    aligned = text("general.alignment") + struct.pack("<II", 4, 256)
    assert gguf_size(gguf([aligned], [tensor(0, (1,), 0)])) == 256 + 4


def test_metadata_of_every_kind_is_passed_over():
    words = text("a") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("yz")
    numbers = text("b") + struct.pack("<IIQ", 9, 5, 3) + bytes(12)
    flag = text("c") + struct.pack("<I?", 7, True)
    large = text("d") + struct.pack("<Id", 12, 1.0)
    name = text("e") + struct.pack("<I", 8) + text("tiny")
    found = gguf([words, numbers, flag, large, name], [tensor(0, (2,), 0)])
    assert gguf_size(found) == -(-len(found.getvalue()) // 32) * 32 + 8


def test_of_a_tensor_of_a_new_type_it_is_known_where_it_begins():
    found = gguf([], [tensor(99, (1000,), 4096)])
    assert gguf_size(found) == 64 + 4096 + 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GGML", "not a GGUF"),
        (TINY[:100], "ends after 100 bytes"),
        (b"GGUF" + struct.pack("<I", 1), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "counts"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 99), "type 99"),
        (
            b"GGUF"
            + struct.pack("<IQQ", 3, 0, 1)
            + text("general.alignment")
            + bytes([4] + [0] * 7),
            "alignment 0",
        ),
    ],
)
def test_a_header_that_is_none_is_unreadable(data, words):
    with pytest.raises(Unreadable, match=words):
        gguf_size(io.BytesIO(data))


@given(at=st.integers(0, len(TINY)), noise=st.binary(max_size=24))
def test_no_bytes_make_it_raise_anything_but_unreadable(at, noise):
    with suppress(Unreadable):
        assert gguf_size(io.BytesIO(TINY[:at] + noise + TINY[at + len(noise) :])) >= 0
