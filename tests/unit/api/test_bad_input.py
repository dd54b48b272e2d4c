"""Whatever is sent, the answer is a refusal in words and never a fault of ours."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from llmgw.base.errors import Unreadable
from llmgw.client.interface import target
from llmgw.control.api import reading
from llmgw.control.api.answer import TurnedAway
from llmgw.control.api.app import build
from llmgw.control.api.operation import Operation
from llmgw.control.api.reading import BODY_MOST, read_if_match, read_query
from llmgw.control.api.shapes import (
    LogsQuery,
    NewJoinToken,
    NewKey,
    SettingPut,
    UsageQuery,
    WatchQuery,
    Wish,
)
from llmgw.control.api.table import OPERATIONS
from llmgw.model.catalog import Model, PackageSource, Profile, UrlSource
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import cpu_serving
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import BODIES, WHATEVER, client, url

writing = [one for one in OPERATIONS if one.body is not None]
asking = [one for one in OPERATIONS if one.query is not None and not one.streams]

FIELDS = sorted(
    {
        field
        for type_ in (Model, Profile, PackageSource, UrlSource, NewKey, SettingPut, Wish)
        for field in type_.__struct_fields__
    }
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(["", "link.lost_after", "engines", "tiny", "read", "node", "../../x", "\x00"])
    | st.sampled_from([2**63, -(2**63), 2**64, 1e308, -1, 0, 10**30])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=15,
)


def variations(good: Any) -> st.SearchStrategy[Any]:
    """Return good bodies with one value somewhere replaced, and anything else."""
    return st.sampled_from(list(_places(good))).flatmap(
        lambda place: values.map(lambda value: _with(good, place, value))
    )


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from _places(inner, (*at, key))


def _with(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _with(value[place[0]], place[1:], new)
    return copy


def answers(requests: list[tuple[str, str, bytes | None]]) -> list[httpx.Response]:
    """Send requests to one fresh plane, in its own loop: Hypothesis runs tests without one."""

    async def send() -> list[httpx.Response]:
        plane = await FakePlane(cpu_serving(), FakeClock(NOW)).prepare()
        # A gateway that is away is no name's fault: an answer that says so is a true 503.
        plane.fake_gateways.live.silent = ()
        async with client(build(plane), plane.tokens_by_role["admin"]) as http:
            return [
                await http.request(m, u, content=content, headers=WHATEVER)
                for m, u, content in requests
            ]

    return asyncio.run(send())


def check(found: list[httpx.Response]) -> None:
    for answer in found:
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"]


@pytest.mark.parametrize("operation", writing, ids=lambda one: one.name)
@given(data=st.data())
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
def test_no_body_is_our_fault(operation: Operation, data: st.DataObject) -> None:
    bodies = [
        json.dumps(data.draw(variations(BODIES[operation.name]))).encode(),
        json.dumps(data.draw(values)).encode(),
        data.draw(st.binary(max_size=60)),
    ]
    check(answers([(operation.method, url(operation), body) for body in bodies]))


@pytest.mark.parametrize("operation", asking, ids=lambda one: one.name)
@given(data=st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
def test_no_query_is_our_fault(operation: Operation, data: st.DataObject) -> None:
    known: list[str] = [*operation.query.__struct_fields__, "x"]
    names = st.sampled_from(known)
    texts = st.text(max_size=8) | st.sampled_from(
        ["nan", "inf", "-1", "0", "1e400", "9" * 400, "true", "null", "%", "a,b", "nodes", "\ud83d"]
    ).filter(lambda text: text.isascii())
    path = url(operation).partition("?")[0]
    pairs = data.draw(st.lists(st.tuples(names, texts), max_size=4))
    query = urlencode(pairs)
    raw = data.draw(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20))
    check(
        answers([("GET", f"{path}?{query}", None), ("GET", f"{path}?{raw.replace('#', '')}", None)])
    )


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if "{" in one.path and not one.streams]
)
@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
def test_no_name_is_our_fault(operation: Operation, name: str) -> None:
    path = operation.path.replace("{id}", name).replace("{name:path}", name)
    body = json.dumps(BODIES[operation.name]).encode() if operation.body else None
    check(answers([(operation.method, target(path), body)]))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe{}",
        b'{"path": "link", "value": ' + b"[" * 100_000,
        b'{"path": "link", "value": ' + b'{"a":' * 100_000,
        b'{"path": "x", "value": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"path": "link.lost_after", "value": ' + b"9" * 5000 + b"}",
        b'{"path": "link.lost_after", "value": 1e999}',
        b'{"path": "\\ud800", "value": 1}',
        b'{"path": "' + b"a." * 400 + b'a", "value": 1}',
    ],
    ids=range(13),
)
def test_odd_bodies_are_refused(body: bytes) -> None:
    (answer,) = answers([("PUT", "/api/v1/settings", body)])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unreadable"


async def test_a_body_that_is_too_large_is_refused(app: Starlette, plane: FakePlane) -> None:
    async def pieces() -> Any:
        for _ in range(BODY_MOST // 65536 + 2):
            yield b" " * 65536

    async with client(app, plane.tokens_by_role["admin"]) as http:
        said = await http.put("/api/v1/settings", content=b" " * (BODY_MOST + 1))
        unsaid = await http.put("/api/v1/settings", content=pieces())
        lied = await http.put(
            "/api/v1/settings", content=b"{}", headers={"Content-Length": "9" * 30}
        )
    for answer in (said, unsaid, lied):
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "too_large"
        assert answer.headers["connection"] == "close"


async def test_a_compressed_body_is_refused(app: Starlette, plane: FakePlane) -> None:
    async with client(app, plane.tokens_by_role["admin"]) as http:
        for coding in ("gzip", "br", "identity, gzip"):
            answer = await http.put(
                "/api/v1/settings", content=b"x", headers={"Content-Encoding": coding}
            )
            assert answer.status_code == 415


async def test_a_body_that_does_not_come_is_not_waited_for(
    app: Starlette, plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BODY_SECONDS", 0.01)

    async def never() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    async with client(app, plane.tokens_by_role["admin"]) as http:
        answer = await http.put("/api/v1/settings", content=never())
    assert answer.status_code == 408
    assert answer.headers["connection"] == "close"


async def test_a_body_where_none_is_taken_is_not_read(app: Starlette, plane: FakePlane) -> None:
    async with client(app, plane.tokens_by_role["admin"]) as http:
        answer = await http.request("GET", "/api/v1/nodes", content=b"x" * 10)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("query", "type_"),
    [
        (b"lines=-1", LogsQuery),
        (b"lines=2001", LogsQuery),
        (b"lines=1.5", LogsQuery),
        (b"lines=", LogsQuery),
        (b"lines=1&lines=2", LogsQuery),
        (b"line=1", LogsQuery),
        (b"source=" + b"x" * 301, LogsQuery),
        (b"since=nan", UsageQuery),
        (b"since=inf", UsageQuery),
        (b"since=1e12", UsageQuery),
        (b"since=-1", UsageQuery),
        (b"topics=nodes&number=9999999999999999999999", WatchQuery),
        (b"topics=nodes&number=-1", WatchQuery),
        (b"topics=" + b"x" * 9000, WatchQuery),
        (b"&" * 30 + b"=" * 30, WatchQuery),
        (b"topics=\xff", WatchQuery),
    ],
)
def test_a_parameter_out_of_bounds_is_refused(query: bytes, type_: type) -> None:
    with pytest.raises((Unreadable, TurnedAway)):
        read_query(query, type_)


def test_parameters_that_are_right_are_read() -> None:
    assert read_query(b"lines=5&source=m-1%2F0", LogsQuery) == LogsQuery(lines=5, source="m-1/0")
    assert read_query(b"", LogsQuery) == LogsQuery()


async def test_parameters_where_none_are_taken_are_refused(
    app: Starlette, plane: FakePlane
) -> None:
    async with client(app, plane.tokens_by_role["admin"]) as http:
        assert (await http.get("/api/v1/nodes?selector=x")).status_code == 400


@pytest.mark.parametrize("header", ["x", "-1", "1.5", '"', 'W/"1"', "1, 2", "9" * 16, "²"])
def test_an_if_match_that_is_no_version_is_refused(header: str) -> None:
    with pytest.raises(Unreadable, match="If-Match"):
        read_if_match(header)


@pytest.mark.parametrize("operation", writing, ids=lambda one: one.name)
async def test_a_text_of_a_wrong_length_is_refused_in_our_own_words(
    app: Starlette, plane: FakePlane, ids: dict[str, str], operation: Operation
) -> None:
    good: Any = BODIES.get(operation.name)
    async with client(app, plane.tokens_by_role["admin"]) as http:
        for place in _places(good):
            value: Any = good
            for step in place:
                value = value[step]
            for wrong in ("x" * 3000, "") if isinstance(value, str) else ():
                body = _with(good, place, wrong)
                answer = await http.request(operation.method, url(operation, ids), json=body)
                text = answer.text
                assert "of length" not in text, (place, text)


async def test_a_name_of_a_wrong_length_is_refused_like_any_other_bad_name(
    app: Starlette, plane: FakePlane
) -> None:
    assert reading.read_as(
        json.dumps({"role": "node", "subject": "n" * 300}).encode(), NewJoinToken
    ).subject, "whoever makes the token refuses it"
    async with client(app, plane.tokens_by_role["admin"]) as http:
        for name in ("n" * 300, "", "\x1b"):
            for path, body in (
                ("/api/v1/keys", {"name": name}),
                ("/api/v1/tokens", {"role": "read", "name": name}),
            ):
                error = (await http.post(path, json=body)).json()["error"]
                assert "name is 1 to 100 printable characters, not " in error["message"]
        key = {"name": "k", "models": ["m" * 300]}
        error = (await http.post("/api/v1/keys", json=key)).json()["error"]
        assert error["message"] == "body: models[0]: has more than 253 characters"
        query = f"source={'x' * 301}"
        error = (await http.get(f"/api/v1/nodes/atlas/logs?{query}")).json()["error"]
        assert error["message"] == "query: source: has more than 300 characters"
        error = (await http.get("/api/v1/nodes/atlas/logs?lines=3000")).json()["error"]
        assert error["message"] == "query: lines: must be at most 2000"
