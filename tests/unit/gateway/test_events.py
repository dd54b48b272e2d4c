"""Streams of events: passed on byte for byte, whole, and without what nobody asked for."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.proxy.events import HELD_MOST, UNCOUNTED_MOST, EventStream
from llmgw.gateway.proxy.usage import Usage, WholeReply, usage_of_end, usage_of_reply

ROLE = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'
WORD = b'data: {"choices":[{"delta":{"content":"say \\"usage\\" [x]"}}],"usage":null}\n\n'
LAST = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM = ROLE + WORD * 3 + b": a comment\n\n" + LAST + USAGE + DONE


def passed(parts: list[bytes], *, hide: bool) -> tuple[bytes, EventStream]:
    events = EventStream(hide_usage=hide)
    out = [events.feed(part) for part in parts]
    assert all(piece.endswith(b"\n\n") for piece in out if piece)
    return b"".join([*out, events.rest()]), events


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({at % len(stream) for at in cuts}), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(places)]


cuts = st.lists(st.integers(0, 10_000), max_size=20)


@given(cuts)
def test_only_the_usage_event_is_taken_out_whatever_parts_it_comes_in(cuts):
    out, events = passed(cut(STREAM, cuts), hide=True)
    assert out == STREAM.replace(USAGE, b"")
    assert events.usage == Usage(prompt_tokens=7, completion_tokens=3)


@given(cuts)
def test_nothing_is_taken_out_of_what_the_client_asked_for(cuts):
    out, events = passed(cut(STREAM, cuts), hide=False)
    assert out == STREAM
    assert events.usage == Usage(prompt_tokens=7, completion_tokens=3)


@given(cuts)
def test_events_are_counted_the_same_whatever_parts_they_come_in(cuts):
    for spoken in (WORD, WORD.replace(b',"usage":null', b"")):
        _, events = passed(cut(ROLE + spoken * 5 + DONE, cuts), hide=True)
        assert events.produced == 5


@given(cuts, st.sampled_from([b"\n", b"\r\n"]))
def test_comments_are_no_tokens_whatever_parts_they_come_in(cuts, line):
    ping, more = b": ping\n\n", b": one\n:two\n\n"
    commented = b": with a comment\n" + WORD
    stream = ping * 3 + ROLE + (ping + WORD + more) * 4 + commented + USAGE + more + DONE
    whole = stream.replace(b"\n", line)
    for hide in (True, False):
        events = EventStream(hide_usage=hide)
        out = b"".join([*(events.feed(part) for part in cut(whole, cuts)), events.rest()])
        assert events.produced == 5 + (not hide)
        assert out.count(b": ping") == 7


@given(
    st.lists(
        st.sampled_from([ROLE, WORD, USAGE, DONE, b"\n\n", b'data: "usage"{\n', b"\r\n\r\n", b"x"])
    )
)
def test_without_hiding_every_byte_comes_out_in_order(parts):
    events = EventStream(hide_usage=False)
    out = b"".join(events.feed(part) for part in parts) + events.rest()
    assert out == b"".join(parts)


PROGRESS = b'data: {"choices":[{"delta":{"content":null}}],"prompt_progress":{"total":9}}\n\n'


@given(cuts, st.booleans())
def test_how_far_the_prompt_is_is_taken_out_when_nobody_asked(cuts, hide):
    events = EventStream(hide_usage=True, hide_progress=hide)
    stream = PROGRESS * 3 + ROLE + WORD + USAGE + DONE
    out = b"".join(events.feed(part) for part in cut(stream, cuts)) + events.rest()
    assert out == PROGRESS * (0 if hide else 3) + ROLE + WORD + DONE
    assert events.usage is not None


def test_lines_may_end_in_carriage_returns():
    stream = STREAM.replace(b"\n", b"\r\n")
    events = EventStream(hide_usage=True)
    out = events.feed(stream[:50]) + events.feed(stream[50:])
    assert out == stream.replace(USAGE.replace(b"\n", b"\r\n"), b"")


def test_usage_beside_content_stays_and_counts():
    usage = b'"usage":{"prompt_tokens":1,"completion_tokens":0}'
    both = b'data: {"choices":[{"delta":{"content":"x"}}],%b}\n\n' % usage
    out, events = passed([both], hide=True)
    assert out == both
    assert events.usage == Usage(prompt_tokens=1, completion_tokens=0)


def test_numbers_that_no_engine_means_are_no_usage():
    for number in ("-1", "1e99", "99999999999999999999", '"7"'):
        event = b'data: {"choices":[],"usage":{"prompt_tokens":%b}}\n\n' % number.encode()
        out, events = passed([event], hide=True)
        assert (out, events.usage) == (event, None)


def test_an_event_that_is_too_long_to_hold_is_passed_on_in_parts():
    events = EventStream(hide_usage=True)
    assert events.feed(b"data: " + b"x" * HELD_MOST)
    assert events.feed(b"x\n\n") == b"x\n\n"


def test_the_usage_of_a_long_reply_is_read_from_its_end():
    embedding = ",".join("0.123456789" for _ in range(600_000))
    body = (
        f'{{"data":[{embedding}],'
        '"usage":{"prompt_tokens":8,"total_tokens":8,"more":{"a":1}},"id":"x"}'
    )
    whole = WholeReply()
    raw = body.encode()
    for at in range(0, len(raw), 65536):
        assert whole.feed(raw[at : at + 65536]) == raw[at : at + 65536]
    assert whole.usage == Usage(prompt_tokens=8, total_tokens=8)
    assert whole.size == len(raw)


@given(st.binary(max_size=300))
def test_no_reply_makes_reading_its_usage_raise(data):
    usage_of_reply(data)
    usage_of_end(data)
    usage_of_end(b'"usage":{' + data)
    EventStream(hide_usage=True).feed(b'data: {"usage"' + data + b"\n\n")


def test_words_in_a_reply_do_not_pass_for_its_usage():
    content = json.dumps({"content": '"usage":{"prompt_tokens":1,"completion_tokens":999}'})
    assert usage_of_reply(content.encode()) is None
    assert usage_of_end(content.encode()) is None


@given(cuts)
def test_what_a_streamed_response_used_is_read_from_within_its_last_event(cuts):
    usage = b'{"usage":{"input_tokens":7,"output_tokens":3}}'
    done = b'event: response.completed\ndata: {"response":%b}\n\n' % usage
    out, events = passed(cut(WORD + done, cuts), hide=False)
    assert out == WORD + done
    assert (events.usage.prompt_tokens, events.usage.completion_tokens) == (7, 3)


def test_of_what_passed_no_more_than_a_few_pieces_is_kept_to_be_counted():
    events = EventStream(hide_usage=True)
    for _ in range(10 * UNCOUNTED_MOST):
        events.feed(LAST)
        assert len(events._uncounted) <= UNCOUNTED_MOST
    assert events.produced == 10 * UNCOUNTED_MOST - 1
    assert events._uncounted == []
