"""What models on a disk are made of, as their own headers say."""

import json
import os
from pathlib import Path
from typing import IO

import pytest

from llmgw.formats import gguf
from llmgw.model.shape import ModelShape
from llmgw_agent.weights import shape as shapes
from llmgw_agent.weights.scan import sets_below
from tests.only import only
from tests.unit.formats.headers import gguf as gguf_file
from tests.unit.formats.headers import tensor

FIXTURES = Path(__file__).parents[2] / "fixtures"
GGUF = (FIXTURES / "gguf" / "tiny-v3.gguf").read_bytes()
TENSORS = (FIXTURES / "safetensors" / "tiny.safetensors").read_bytes()
CONFIG = {"model_type": "qwen3", "num_hidden_layers": 2, "num_attention_heads": 2,
          "hidden_size": 32}  # fmt: skip


def shape_below(directory: Path) -> ModelShape | None:
    return only(sets_below(directory)).shape


def test_a_gguf_file_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(GGUF)
    shape = shape_below(tmp_path)
    assert shape is not None
    # llama, context 2048, one tensor of 128 bytes.
    assert (shape.architecture, shape.context, shape.weights_bytes) == ("llama", 2048, 128)


def test_of_several_parts_the_tensors_are_summed(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"big-{part:05}-of-00002.gguf").write_bytes(GGUF)
    shape = shape_below(tmp_path)
    assert shape is not None
    assert shape.weights_bytes == 2 * 128


def test_what_reads_pictures_beside_a_model_is_no_part_of_it(tmp_path: Path) -> None:
    model, pictures = tmp_path / "tiny.gguf", tmp_path / "mmproj-tiny.gguf"
    for file in (model, pictures):
        file.write_bytes(GGUF)
    shape = shapes.shape_of(model, (model, pictures))
    assert shape is not None
    assert shape.weights_bytes == 128


def test_safetensors_are_described_by_the_configuration_beside_them(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(TENSORS)
    assert shape_below(tmp_path) is None
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    shape = shape_below(tmp_path)
    assert shape is not None
    # Two tensors of 16 and of 24 bytes.
    assert (shape.architecture, shape.weights_bytes, shape.layers) == ("qwen3", 40, 2)


def test_a_configuration_that_says_nothing_costs_only_the_shape(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(TENSORS)
    for text in ("", "[]", "{", "x" * (5 << 20)):
        (tmp_path / "config.json").write_text(text)
        assert shape_below(tmp_path) is None


def test_a_file_is_read_once_while_it_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def count(data: IO[bytes]) -> gguf.GgufHead:
        read.append(data)
        return gguf.read_gguf(data)

    monkeypatch.setattr(shapes, "read_gguf", count)
    file = tmp_path / "tiny.gguf"
    file.write_bytes(GGUF)
    assert shape_below(tmp_path) == shape_below(tmp_path)
    assert len(read) == 1
    whole = gguf_file({"general.architecture": "other"}, [tensor("a", (64,))]).getvalue()
    file.write_bytes(whole + bytes(512))
    os.utime(file, (1, 1))
    shape = shape_below(tmp_path)
    assert shape is not None
    assert shape.architecture == "other"
