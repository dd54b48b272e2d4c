"""Server-sent events: bytes in, events out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.client.sse import EventReader, SentEvent


def read(*pieces: bytes) -> list[SentEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_events_comments_and_names() -> None:
    text = b":\n\ndata: {}\n\nevent: error\ndata: no\n\n: hi\ndata:x\nid: 3\nretry\n\n"
    assert read(text) == [
        SentEvent("message", b"{}"),
        SentEvent("error", b"no"),
        SentEvent("message", b"x"),
    ]


def test_data_of_several_lines_is_joined() -> None:
    assert read(b"data: a\ndata:  b\n\n") == [SentEvent("message", b"a\n b")]


def test_an_unfinished_event_is_not_told() -> None:
    assert read(b"data: a\n") == []
    assert read(b"data: a") == []


@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))),
    st.sampled_from([b"\n", b"\r\n"]),
    st.data(),
)
def test_how_the_bytes_are_cut_makes_no_difference(
    values: list[bytes], end: bytes, data: st.DataObject
) -> None:
    whole = b"".join(b"data: " + value + end + end for value in values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*pieces) == [SentEvent("message", value) for value in values]


def test_an_event_without_end_is_refused() -> None:
    reader = EventReader(most=100)
    for _ in range(7):
        reader.feed(b"data: 1234567\n")
    reader.feed(b"data: 1234567\n" * 5)
    with pytest.raises(Unreadable, match="more than 100 bytes"):
        reader.feed(b"data: 1234567\n")
    with pytest.raises(Unreadable, match="more than 100 bytes"):
        EventReader(most=100).feed(b"x" * 101)


@given(st.lists(st.binary(max_size=20)))
def test_no_bytes_raise_anything(pieces: list[bytes]) -> None:
    read(*pieces)
