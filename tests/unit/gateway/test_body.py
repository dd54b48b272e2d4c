"""Edits of a body: in place, and nothing else changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.proxy.body import (
    Asked,
    ask_for_usage,
    read_body,
    rename_model,
    wants_usage,
)
from llmgw.gateway.refusals import Refusal

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
READ = frozenset(Asked.__struct_fields__)
members = st.dictionaries(
    st.sampled_from(['"model"', "model:", "stream_options", "a\\b"]) | st.text(max_size=8), values
).map(lambda some: {name: value for name, value in some.items() if name not in READ})
spaces = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])


def read(body: bytes) -> Asked:
    asked = read_body(body)
    assert isinstance(asked, Asked), asked
    return asked


@given(members, members, spaces, st.booleans())
def test_renaming_changes_the_models_name_and_no_other_byte(before, after, separators, ascii_):
    body = {**before, "x": {"model": "m"}, "model": "m", **after}
    raw = json.dumps(body, separators=separators, ensure_ascii=ascii_).encode(
        "utf-8", "surrogatepass"
    )
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    asked = read(raw)
    edited = rename_model(raw, asked, "other/näme")
    assert isinstance(edited, bytes)
    assert json.loads(edited) == {**body, "model": "other/näme"}
    assert len(edited) - len(raw) == len('"other/näme"'.encode()) - len(b'"m"')


BAD_OPTIONS = {
    "a number beyond all": b'{"x":1e999}',
    "nested deeply": b'{"x":' + b"[" * 900 + b"]" * 900 + b"}",
    "nested a little too deeply": b'{"x":' + b"[" * 64 + b"]" * 64 + b"}",
    "a list": b"[1]",
    "a text": b'"include_usage"',
    "another kind": b'{"include_usage":1}',
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_options_that_cannot_be_edited_are_refused_before_anything_is_begun(options):
    refusal = read_body(b'{"model":"m","stream":true,"stream_options":' + options + b"}")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.param) == ("invalid_value", "stream_options")


@pytest.mark.parametrize("name", ["MODEL", "Model", "\\u004dodel", "\u017ftream", "Max_Tokens"])
def test_a_member_in_other_letters_is_found_at_the_top_alone(name):
    refusal = read_body(b'{"model":"m","%b" :"other"}' % name.encode())
    assert isinstance(refusal, Refusal)
    assert refusal.code == "invalid_value"
    assert refusal.param == json.loads(f'"{name}"')
    read(b'{"model":"m","x":{"%b":1},"y":"%b"}' % (name.encode(), name.encode()))


@given(members, spaces, st.sampled_from([..., None, {}, {"include_usage": False}, {"x": [1, "}"]}]))
def test_asking_for_usage_changes_the_options_and_no_other_member(more, separators, options):
    body = {"model": "m", "stream": True, **more}
    if options is not ...:
        body = {"stream_options": options, **body}
    raw = b" " + json.dumps(body, separators=separators).encode() + b"\n"
    asked = read(raw)
    assert not wants_usage(asked)
    edited = ask_for_usage(raw, asked)
    assert isinstance(edited, bytes)
    expected = {**({} if options in (..., None) else options), "include_usage": True}
    assert json.loads(edited) == {**body, "stream_options": expected}
    assert wants_usage(read(edited))


def test_a_name_that_is_spelled_with_escapes_cannot_hide():
    raw = b'{"mod\\u0065l":"m"}'
    assert rename_model(raw, read(raw), "n") == b'{"mod\\u0065l":"n"}'
    nested = b'{"mod\\u0065l":"m","x":{"model":"m"}}'
    assert rename_model(nested, read(nested), "n") == b'{"mod\\u0065l":"n","x":{"model":"m"}}'


def test_of_a_name_that_is_there_twice_the_last_counts_as_it_does_for_engines():
    raw = b'{"model":"a","model":"m"}'
    assert read(raw).model == "m"
    assert rename_model(raw, read(raw), "n") == b'{"model":"a","model":"n"}'


def test_a_body_of_too_many_parts_is_refused_instead_of_searched():
    raw = b'{"x":[' + b",".join([b"[]"] * 400_000) + b'],"model":"m"}'
    edited = rename_model(raw, read(raw), "n")
    assert isinstance(edited, Refusal)
    assert edited.status == 400


@given(st.binary(max_size=200))
def test_no_body_makes_reading_raise(raw):
    assert isinstance(read_body(raw), Asked | Refusal)


@pytest.mark.parametrize("number", ["10.0", "1e1"])
def test_whole_numbers_may_be_written_as_fractions(number):
    assert read(b'{"model":"m","max_tokens":%b}' % number.encode()).max_tokens == 10


def test_a_name_of_a_wrong_length_is_refused_in_plain_words():
    messages = [{"role": "user", "content": "x"}]
    for name, words in (("m" * 513, "has more than 512 characters"), ("", "must not be empty")):
        refused = read_body(json.dumps({"model": name, "messages": messages}).encode())
        assert isinstance(refused, Refusal)
        assert (refused.message, refused.param) == (words, "model")
