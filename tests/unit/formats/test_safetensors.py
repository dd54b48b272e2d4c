"""What a safetensors header and the configuration beside it say."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.formats.hub_config import shape_of
from llmgw.formats.safetensors import LARGEST_HEADER, header_length, read_safetensors
from llmgw.model.shape import AttentionLayers
from tests.unit.formats.headers import safetensors

TINY = (Path(__file__).parents[2] / "fixtures" / "safetensors" / "tiny.safetensors").read_bytes()

QWEN = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "hidden_size": 2048,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}


def test_the_recorded_file_says_its_two_tensors() -> None:
    # lm_head.weight F32 [2,2] offsets 0-16; model.embed.weight F16 [4,3] offsets 16-40.
    assert header_length(TINY[:8]) == 176
    head = read_safetensors(TINY[8 : 8 + 176])
    assert head.tensors == {"lm_head.weight": 16, "model.embed.weight": 24}
    assert head.size_bytes == 8 + 176 + 40 == len(TINY)


def test_the_bytes_of_all_files_and_of_experts_are_summed() -> None:
    heads = [
        read_safetensors(safetensors({"model.layers.0.mlp.experts.0.up_proj.weight": 100})),
        read_safetensors(safetensors({"lm_head.weight": 7})),
    ]
    shape = shape_of(json.dumps(QWEN).encode(), heads)
    assert (shape.weights_bytes, shape.expert_bytes) == (107, 100)
    assert (shape.experts, shape.experts_used) == (128, 8)
    assert shape.attention == (
        AttentionLayers(layers=48, heads=4, key_length=128, value_length=128),
    )


def test_a_configuration_alone_says_all_but_the_size() -> None:
    shape = shape_of(json.dumps(QWEN).encode(), ())
    assert shape.weights_bytes is None
    assert (shape.layers, shape.context, shape.vocabulary) == (48, 40960, 151936)


def test_heads_share_the_width_of_the_model_where_no_width_is_said() -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    shape = shape_of(json.dumps(config).encode(), ())
    assert shape.attention == (AttentionLayers(layers=2, heads=4, key_length=16, value_length=16),)


def test_a_model_of_texts_and_pictures_is_read_in_its_text_part() -> None:
    shape = shape_of(json.dumps({"model_type": "gemma3", "text_config": QWEN}).encode(), ())
    assert (shape.architecture, shape.layers) == ("gemma3", 48)


def test_latent_attention_keeps_one_vector_a_layer() -> None:
    config = {**QWEN, "num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    shape = shape_of(json.dumps(config).encode(), ())
    assert shape.attention == (AttentionLayers(layers=61, heads=1, key_length=576, value_length=0),)


def test_layers_of_each_kind_are_told_apart() -> None:
    config = {
        **QWEN,
        "num_hidden_layers": 3,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention", "linear_attention"],
    }
    shape = shape_of(json.dumps(config).encode(), ())
    assert [(one.layers, one.heads, one.window) for one in shape.attention or ()] == [
        (1, 4, None),
        (1, 0, None),
        (1, 4, 128),
    ]


@pytest.mark.parametrize("missing", ["num_hidden_layers", "num_attention_heads"])
def test_what_a_configuration_does_not_say_is_not_known(missing: str) -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    del config[missing]
    assert shape_of(json.dumps(config).encode(), ()).attention is None


@pytest.mark.parametrize("value", [True, -1, 0, "48", 4.5, None, [], {"a": 1}, 2**41, 10**40])
def test_a_number_that_is_none_is_not_known(value: object) -> None:
    shape = shape_of(json.dumps({**QWEN, "num_hidden_layers": value}).encode(), ())
    assert (shape.layers, shape.attention) == (None, None)


@pytest.mark.parametrize("config", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_configuration_that_is_none_is_refused(config: bytes) -> None:
    with pytest.raises(Unreadable, match=r"config\.json"):
        shape_of(config, ())


@pytest.mark.parametrize(
    "start", [b"", b"\x01", bytes(8), (LARGEST_HEADER + 1).to_bytes(8, "little"), b"\xff" * 8]
)
def test_a_beginning_that_is_no_length_is_refused(start: bytes) -> None:
    with pytest.raises(Unreadable, match="not a safetensors file"):
        header_length(start)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b'{"a": 1}', b'{"a": {}}', b'{"a": {"data_offsets": [4, 2]}}',
     b'{"a": {"data_offsets": [-1, 2]}}', b'{"a": {"data_offsets": [1]}}',
     b'{"a": {"data_offsets": ["x", 2]}}', b'{"a": {"data_offsets": [0, 1152921504606846977]}}'],
)  # fmt: skip
def test_a_header_that_is_none_is_refused(header: bytes) -> None:
    with pytest.raises(Unreadable, match="none of safetensors"):
        read_safetensors(header)


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_never_more_than_that(garbage: bytes) -> None:
    for read in (read_safetensors, lambda data: shape_of(data, ())):
        with suppress(Unreadable):
            read(garbage)
