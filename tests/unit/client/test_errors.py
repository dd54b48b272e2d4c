"""What refusals become on the caller's side."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut, Unreachable, Unreadable
from llmgw.client.errors import Rejected, Unauthorized, from_answer

WHERE = "http://127.0.0.1:7441"


def answer(**said: object) -> bytes:
    return json.dumps({"error": {"message": "no", "hint": None, **said}}).encode()


def test_message_and_hint_come_through() -> None:
    error = from_answer(404, answer(code="not_found", message="no node 'x'", hint="look"), WHERE)
    assert type(error) is NotFound
    assert (error.message, error.hint) == ("no node 'x'", "look")


def test_the_code_decides_and_the_status_when_the_code_is_unknown() -> None:
    assert type(from_answer(400, answer(code="timed_out"), WHERE)) is TimedOut
    assert type(from_answer(503, answer(code="something_new"), WHERE)) is Unreachable
    assert type(from_answer(418, answer(code="something_new"), WHERE)) is LlmgwError


def test_an_unknown_token_is_told_apart_from_a_refusal() -> None:
    assert type(from_answer(401, answer(code="unauthorized"), WHERE)) is Unauthorized
    assert type(from_answer(429, answer(code="too_many_tries"), WHERE)) is Refused


def test_problems_come_with_their_paths() -> None:
    problems = [{"path": "profiles[0].gpus", "words": "is -1"}, {"path": "", "words": "empty"}]
    error = from_answer(400, answer(code="unreadable", problems=problems), WHERE)
    assert isinstance(error, Rejected)
    assert isinstance(error, Unreadable)
    assert error.problems == (("profiles[0].gpus", "is -1"), ("", "empty"))


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"[]", b'{"error": "x"}', b"\xff"])
def test_an_answer_that_is_not_llmgws_says_where_it_came_from(body: bytes) -> None:
    error = from_answer(502, body, WHERE)
    assert type(error) is Unreachable
    assert error.message == f"{WHERE} answered 502"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "code", "message", "hint", "problems", "path", "words"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    st.integers(100, 999),
    st.binary(max_size=60) | json_values.map(lambda v: json.dumps(v).encode()),
)
def test_no_answer_breaks_the_reader(status: int, body: bytes) -> None:
    assert from_answer(status, body, WHERE).message
