"""Forms: the model is found or the form is refused, and nothing makes the reader raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.proxy.body import FormAsked, rename_model
from llmgw.gateway.proxy.forms import PARTS_MOST, read_form
from llmgw.gateway.refusals import Refusal

TYPE = b"multipart/form-data; boundary=xyz"


def part(value: bytes, disposition: bytes = b'form-data; name="model"', *more: bytes) -> bytes:
    head = b"\r\n".join([b"Content-Disposition: " + disposition, *more])
    return b"--xyz\r\n" + head + b"\r\n\r\n" + value + b"\r\n"


FILE = part(
    b"\x00\r\n--xy\r\n\r\nRIFF",
    b'form-data; name="file"; filename="a b.wav"',
    b"Content-Type: audio/wav",
)
END = b"--xyz--\r\n"
MODEL = part(b"whisper-1")


def named(name: str) -> bytes:
    return b'form-data; name="%b"' % name.encode()


@pytest.mark.parametrize(
    "kind",
    [
        TYPE,
        b'Multipart/Form-Data;boundary="xyz"',
        b"multipart/form-data; charset=utf-8; boundary=xyz",
    ],
)
def test_the_model_is_found_beside_a_file(kind):
    body = FILE + MODEL + part(b"0.2", named("temperature")) + END
    asked = read_form(body, kind)
    assert isinstance(asked, FormAsked)
    assert (asked.model, asked.stream) == ("whisper-1", None)
    assert rename_model(body, asked, "ab/c") == body.replace(b"whisper-1", b"ab/c")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (FILE + END, "model"),
        (part(b"") + END, "model"),
        (MODEL + MODEL + END, "two fields"),
        (MODEL + part(b"b", b'form-data; name="model"; filename="x"') + END, "is a file"),
        (MODEL + part(b"b", b'form-data; name="mo\\del"') + END, "plain name"),
        (MODEL + part(b"b", b"form-data; name*=utf-8''model") + END, "plain name"),
        (MODEL + part(b"b", b'form-data; name="a"; name="model"') + END, "plain name"),
        (MODEL + part(b"b", b'form-data; name="a" "model"') + END, "can't be read"),
        (MODEL + b"--xyz\r\nX: y\r\n\r\nb\r\n" + END, "Content-Disposition"),
        (MODEL + part(b"b", named("a"), b"Content-Disposition: form-data") + END, "not one"),
        (MODEL, "no end"),
        (MODEL + b"--xyz", "does not end its line"),
        (b"preamble\r\n" + MODEL + END, "begin with its boundary"),
        (part(b"b", named("a")) * PARTS_MOST + MODEL + END, "more than"),
        (MODEL + part(b"1e99", named("temperature")) + END, "<= 1000000"),
        (MODEL + part(b"much", named("temperature")) + END, "float"),
        (part(b"\xff") + END, "utf-8"),
        (part(b"m" * 70_000) + END, "as large as one"),
    ],
)
def test_a_form_that_could_be_read_in_another_way_is_refused(body, words):
    refusal = read_form(body, TYPE)
    assert isinstance(refusal, Refusal)
    assert words in refusal.message


@pytest.mark.parametrize(
    "kind", [b"", b"application/json", b"multipart/form-data", TYPE + b"; x=y", TYPE + b", " + TYPE]
)
def test_a_body_that_is_not_said_to_be_a_form_is_refused(kind):
    refusal = read_form(MODEL + END, kind)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "invalid_form"


@given(st.binary(max_size=200), st.integers(0, len(FILE + MODEL + END)), st.binary(max_size=60))
def test_no_bytes_make_it_raise(noise, at, kind):
    body = FILE + MODEL + END
    for text in (noise, body[:at] + noise + body[at:], body[:at] + noise):
        for content_type in (TYPE, TYPE[:-3] + kind):
            assert isinstance(read_form(text, content_type), FormAsked | Refusal)
