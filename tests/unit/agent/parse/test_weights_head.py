"""What the first bytes of a file say that it is."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.weights_head import GGUF, HEAD_BYTES, SAFETENSORS, kind_of

FIXTURES = Path(__file__).parents[3] / "fixtures"


def from_hex(name: str) -> bytes:
    lines = (FIXTURES / "gguf" / name).read_text().splitlines()
    return b"".join(bytes.fromhex(line.partition("  ")[2]) for line in lines)


def test_gguf_files_are_known_by_their_magic():
    assert kind_of((FIXTURES / "gguf" / "tiny-v3.gguf").read_bytes()[:HEAD_BYTES], "x") == GGUF
    assert kind_of(from_hex("qwen2-vocab-head.hex")[:HEAD_BYTES], "x") == GGUF


def test_safetensors_are_known_by_their_header():
    head = (FIXTURES / "safetensors" / "tiny.safetensors").read_bytes()[:HEAD_BYTES]
    assert kind_of(head, "x") == SAFETENSORS


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"", "empty"),
        (b"lmgg\x01\x00\x00\x00", "before GGUF"),
        (b"tjgg\x03\x00\x00\x00", "before GGUF"),
        (b"PK\x03\x04\x00\x00", "zip archive"),
        (b"\x80\x02}q\x00", "pickle"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"FUGG\x00\x00\x00\x03", "other byte order"),
        (b"GGUF\x00\x00\x00\x03" + b"\0" * 16, "other byte order"),
        (b"GGUF\x09\x00\x00\x00" + b"\0" * 16, "version 9"),
        (b"GGUF\x03", "ends after 5 bytes"),
    ],
)
def test_what_is_no_weights_is_told_in_words(head, words):
    with pytest.raises(Unreadable, match=words) as caught:
        kind_of(head, "model.gguf")
    assert caught.value.message.startswith("model.gguf: ")


def test_the_magic_of_another_byte_order_of_ggml_is_refused():
    with pytest.raises(Unreadable, match="GGML"):
        kind_of(from_hex("old-ggml-head.hex"), "old.bin")


@given(st.binary(max_size=HEAD_BYTES))
def test_no_bytes_raise_anything_but_unreadable(head):
    with suppress(Unreadable):
        assert kind_of(head, "x") in (GGUF, SAFETENSORS)
