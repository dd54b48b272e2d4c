"""What a GGUF header says of its model."""

import io
import struct
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.formats.gguf import read_gguf
from llmgw.formats.gguf_shape import shape_of
from llmgw.model.shape import AttentionLayers
from tests.unit.formats.headers import Said, gguf, tensor, text

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gguf"
TINY = (FIXTURES / "tiny-v3.gguf").read_bytes()

LLAMA: dict[str, Said] = {
    "general.architecture": "llama",
    "llama.block_count": 32,
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.feed_forward_length": 14336,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
    "llama.vocab_size": 128256,
}
GEMMA: dict[str, Said] = {
    "general.architecture": "gemma3",
    "gemma3.block_count": 18,
    "gemma3.embedding_length": 640,
    "gemma3.attention.head_count": 4,
    "gemma3.attention.head_count_kv": 1,
    "gemma3.attention.key_length": 256,
    "gemma3.attention.value_length": 256,
    "gemma3.attention.sliding_window": 512,
}


def test_the_recorded_file_says_its_architecture_context_and_one_tensor() -> None:
    head = read_gguf(io.BytesIO(TINY))
    # general.architecture = llama, llama.context_length = 2048; one tensor of 4 x 8 32-bit floats.
    assert head.version == 3
    assert head.values["general.architecture"] == "llama"
    assert head.values["llama.context_length"] == 2048
    assert [(one.name, one.shape, one.size_bytes) for one in head.tensors] == [
        ("token_embd.weight", (4, 8), 128)
    ]
    assert head.size_bytes == 448 == len(TINY)
    shape = shape_of(head)
    assert (shape.architecture, shape.context, shape.weights_bytes) == ("llama", 2048, 128)


def test_a_header_cut_off_says_after_how_many_bytes() -> None:
    # The first 512 of 5,928,681 bytes; the vocabulary begins in them.
    lines = (FIXTURES / "qwen2-vocab-head.hex").read_text().split("\n")
    data = bytes.fromhex("".join(line.split("  ")[1] if "  " in line else line for line in lines))
    with pytest.raises(Unreadable, match="ends after"):
        read_gguf(io.BytesIO(data))


def test_layers_share_their_heads_and_the_width_of_the_model() -> None:
    shape = shape_of(read_gguf(gguf(dict(LLAMA))))
    assert shape.attention == (
        AttentionLayers(layers=32, heads=8, key_length=128, value_length=128),
    )
    assert (shape.layers, shape.feed_forward, shape.vocabulary) == (32, 14336, 128256)


def test_one_layer_of_six_of_gemma_looks_back_at_everything() -> None:
    shape = shape_of(read_gguf(gguf(dict(GEMMA))))
    assert shape.attention == (
        AttentionLayers(layers=3, heads=1, key_length=256, value_length=256),
        AttentionLayers(layers=15, heads=1, key_length=256, value_length=256, window=512),
    )


def test_a_pattern_layer_by_layer_wins_over_what_is_known_of_the_architecture() -> None:
    pattern = [True, True, False] * 6
    said = {**GEMMA, "gemma3.attention.sliding_window_pattern": pattern}
    shape = shape_of(read_gguf(gguf(said)))
    assert [(one.layers, one.window) for one in shape.attention or ()] == [(6, None), (12, 512)]


def test_an_unknown_architecture_with_a_window_is_counted_as_looking_back_at_everything() -> None:
    said = {name.replace("gemma3", "newest"): value for name, value in GEMMA.items()}
    said["general.architecture"] = "newest"
    shape = shape_of(read_gguf(gguf(said)))
    assert [(one.layers, one.window) for one in shape.attention or ()] == [(18, None)]


@pytest.mark.parametrize("key", ["block_count", "attention.head_count", "embedding_length"])
@pytest.mark.parametrize("value", [2**32 - 1, [2**31 - 1] * 3, True, -1.0, "x"])
def test_a_count_that_is_none_costs_no_memory_and_no_error(key: str, value: Said) -> None:
    shape = shape_of(read_gguf(gguf({**LLAMA, f"llama.{key}": value})))
    assert len(msgspec.json.encode(shape)) < 1000


def test_more_bytes_than_any_disk_has_are_not_known() -> None:
    many = [tensor(f"t{number}", (2**30, 2**29)) for number in range(9)]
    assert shape_of(read_gguf(gguf({}, many))).weights_bytes is None


def test_layers_without_heads_keep_nothing() -> None:
    said = {**LLAMA, "llama.block_count": 4, "llama.attention.head_count_kv": [8, 0, 8, 0]}
    shape = shape_of(read_gguf(gguf(said)))
    assert [(one.layers, one.heads) for one in shape.attention or ()] == [(2, 0), (2, 8)]


def test_what_a_header_does_not_say_is_not_known() -> None:
    shape = shape_of(read_gguf(gguf({"general.architecture": "llama"})))
    assert shape.attention is None
    assert (shape.layers, shape.context, shape.vocabulary) == (None, None, None)
    assert shape_of(read_gguf(gguf({}))).architecture is None


def test_a_recurrent_model_keeps_nothing_of_a_token() -> None:
    assert shape_of(read_gguf(gguf({"general.architecture": "rwkv7"}))).attention == ()


def test_experts_and_embeddings_are_told_apart() -> None:
    tensors = [
        tensor("token_embd.weight", (256, 4), kind=12),  # 4 blocks of 144 bytes
        tensor("output.weight", (256, 4), kind=14, offset=1024),  # 4 blocks of 210
        tensor("blk.0.ffn_up_exps.weight", (256, 2, 8), kind=12, offset=2048),  # 16 of 144
    ]
    said: dict[str, Said] = {
        "general.architecture": "m",
        "m.expert_count": 8,
        "m.expert_used_count": 2,
    }
    shape = shape_of(read_gguf(gguf(said, tensors)))
    assert shape.weights_bytes == 4 * 144 + 4 * 210 + 16 * 144
    assert shape.embedding_bytes == 4 * 144
    assert (shape.expert_bytes, shape.experts, shape.experts_used) == (16 * 144, 8, 2)
    assert shape.vocabulary == 4


def test_embeddings_that_are_the_output_layer_as_well_are_read_for_each_token() -> None:
    shape = shape_of(read_gguf(gguf({}, [tensor("token_embd.weight", (256, 4), kind=12)])))
    assert shape.embedding_bytes == 0


def test_a_tensor_of_a_type_to_come_makes_the_size_unknown_and_no_error() -> None:
    shape = shape_of(read_gguf(gguf({}, [tensor("a", (256,), kind=99)])))
    assert shape.weights_bytes is None


def test_the_vocabulary_is_passed_over() -> None:
    words = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
    scores = text("tokenizer.ggml.scores") + struct.pack("<IIQ2f", 9, 6, 2, 0.0, 1.0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
    assert read_gguf(io.BytesIO(head + words + scores)).values == {}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GGML" + bytes(20), "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "of version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "counts 1152921504606846976"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "counts 1152921504606846976"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62), "counts"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 10**6), "a name of"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 77), "type 77"),
    ],
)
def test_a_header_that_promises_what_no_header_holds_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read_gguf(io.BytesIO(data))


def test_a_tensor_larger_than_any_file_is_refused() -> None:
    with pytest.raises(Unreadable, match="ends after"):
        read_gguf(gguf({}, [tensor("a", (2**40, 2**40))]))


def test_of_a_tensor_of_a_new_type_it_is_known_where_it_begins() -> None:
    assert read_gguf(gguf({}, [tensor("a", (1000,), kind=99, offset=4096)])).size_bytes == 4161


def test_the_last_tensors_end_counts_whatever_order_they_come_in() -> None:
    # 512 weights of Q4_K: 2 blocks of 144 bytes from 64 on; 32 of Q8_0: 34 bytes from 0 on.
    whole = gguf({}, [tensor("t", (512,), kind=12, offset=64), tensor("t", (32,), kind=8)])
    assert len(whole.getvalue()) == 24 + 2 * (9 + 4 + 8 + 12)
    assert read_gguf(whole).size_bytes == 96 + 64 + 288


def test_tensors_begin_where_the_headers_alignment_says() -> None:
    aligned = gguf({"general.alignment": 256}, [tensor("t", (1,))])
    assert read_gguf(aligned).size_bytes == 256 + 4


@pytest.mark.parametrize("alignment", [0, True, "x"])
def test_an_alignment_that_is_none_is_refused(alignment: int | str) -> None:
    with pytest.raises(Unreadable, match="alignment"):
        read_gguf(gguf({"general.alignment": alignment}))


@given(st.binary(max_size=200), st.integers(0, len(TINY)))
def test_garbage_is_refused_and_never_more_than_that(garbage: bytes, cut: int) -> None:
    for data in (garbage, b"GGUF\x03\0\0\0" + garbage, TINY[:cut] + garbage):
        with suppress(Unreadable):
            shape_of(read_gguf(io.BytesIO(data)))
