"""Answers have one shape, whatever is asked."""

import json

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from llmgw.base import errors
from llmgw.base.errors import LlmgwError, PartlyDone, Unreachable
from llmgw.client.errors import Rejected, from_answer
from llmgw.control.api.answer import error_answer
from llmgw.control.api.app import build
from llmgw.control.api.operation import Call, Operation
from llmgw.control.api.table import OPERATIONS
from llmgw.model.faulty import Faulty
from llmgw.model.record import Problem
from tests.fakes.plane import FakePlane
from tests.fakes.plane_fleet import unreachable
from tests.unit.api.asking import BODIES, client, url

EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
SECRET = "llmgw_0123456789_" + "5ec7e7" * 10


@pytest.fixture
def http(app: Starlette, plane: FakePlane) -> httpx.AsyncClient:
    return client(app, plane.tokens_by_role["admin"])


def raised() -> list[type[LlmgwError]]:
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    return [one for one in kinds if issubclass(one, LlmgwError)]


@pytest.mark.parametrize("kind", raised())
def test_an_error_reaches_the_caller_as_what_it_was(kind: type[LlmgwError]) -> None:
    status, body = error_answer(kind("what", hint="do this"))
    assert status >= 400
    back = from_answer(status, msgspec.json.encode(body), "http://h")
    # A command that was partly done is no single request's answer.
    assert type(back) is (LlmgwError if kind is PartlyDone else kind)
    assert (back.message, back.hint) == ("what", "do this")


def test_all_problems_reach_the_caller_with_their_paths() -> None:
    problems = (Problem(path="a[0].b", words="is 0"), Problem(path="c", words="is not"))
    status, body = error_answer(Faulty("model 'm'", problems))
    assert status == 400
    back = from_answer(status, msgspec.json.encode(body), "http://h")
    assert isinstance(back, Rejected)
    assert back.problems == (("a[0].b", "is 0"), ("c", "is not"))
    assert back.message == "model 'm': a[0].b: is 0; c: is not"


def test_a_secret_in_a_message_is_hidden() -> None:
    _, body = error_answer(LlmgwError(f"no {SECRET}", hint=f"Bearer {SECRET}"))
    assert SECRET not in str(body)
    assert "llmgw_0123456789_***" in body.error.message


async def test_a_fault_of_ours_tells_nothing_of_itself(plane: FakePlane) -> None:
    async def broken(call: Call) -> None:
        raise RuntimeError(f"at /srv/secret.py with {SECRET}")

    app = build(plane, [Operation("GET", "/api/v1/broken", "read", broken, "Breaks.")])
    async with client(app, plane.tokens_by_role["read"]) as http:
        answer = await http.get("/api/v1/broken")
    assert answer.status_code == 500
    assert answer.json() == {
        "error": {
            "code": "failed",
            "message": "the control plane failed on this request",
            "hint": "its log says why; please report it",
        }
    }


async def test_every_answer_is_for_the_asker_alone(
    http: httpx.AsyncClient, ids: dict[str, str]
) -> None:
    for operation in OPERATIONS:
        if operation.streams:
            continue
        content = json.dumps(BODIES.get(operation.name)) if operation.body else None
        for answer in (
            await http.request(operation.method, url(operation, ids), content=content),
            await http.request("PATCH", url(operation, ids)),
        ):
            assert answer.headers["cache-control"] == "no-store", operation.path
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "server" not in answer.headers


async def test_head_answers_as_get_without_a_body_and_other_methods_are_refused(
    http: httpx.AsyncClient, ids: dict[str, str]
) -> None:
    for path in {one.path for one in OPERATIONS}:
        here = {one.method: one for one in OPERATIONS if one.path == path}
        target = url(next(iter(here.values())), ids)
        methods = set(here)
        get = here.get("GET")
        if get is not None and not get.streams:
            methods.add("HEAD")
            answer = await http.head(url(get, ids))
            assert (answer.status_code, answer.content) == (get.status, b""), path
        for method in sorted({*EVERY_METHOD} - methods):
            answer = await http.request(method, target)
            assert answer.status_code == 405, (method, path)
            assert answer.headers["allow"] == ", ".join(sorted(methods))
            if method != "HEAD":
                assert answer.json()["error"]["code"] == "no_such_method"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/nodes/",
        "/api/v1/nodes/a/b",
        "/api/v2/nodes",
        "//api/v1/nodes",
        "/api/v1/%2e%2e/v1/nodes",
        "/docs",
        "/API/V1/NODES",
        "/metrics/",
        "/api/v1/keys/x\x00",
    ],
)
async def test_what_is_not_there_is_told_in_the_same_shape(
    http: httpx.AsyncClient, path: str
) -> None:
    answer = await http.delete(path.replace("\x00", "%00"))
    assert answer.status_code in {404, 405}
    assert answer.json()["error"]["message"]
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nodes/nope", "no node 'nope'"),
        ("/nodes/nope/logs", "no node 'nope'"),
        ("/replicas/nope", "no replica 'nope'"),
        ("/models/nope", "no model 'nope'"),
        ("/models/a/b:c", "no model 'a/b:c'"),
        ("/models/", "no model ''"),
        ("/explain/nope", "no model 'nope'"),
        ("/model-history/nope", "never had a model 'nope'"),
    ],
)
async def test_a_name_that_is_unknown_is_quoted(
    http: httpx.AsyncClient, path: str, words: str
) -> None:
    answer = await http.get(f"/api/v1{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert words in answer.json()["error"]["message"]


async def test_what_an_agent_says_reaches_the_caller(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    plane.fake_agents.failure = unreachable("atlas")
    for path in ("/api/v1/nodes/atlas/logs", "/api/v1/nodes/atlas/logs/follow"):
        answer = await http.get(path)
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "atlas has no stream to this control plane"
    assert isinstance(plane.fake_agents.failure, Unreachable)
