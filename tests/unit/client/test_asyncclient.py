"""The client over httpx, with a transport that a test wrote."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import httpx
import pytest

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreachable, Unreadable
from llmgw.base.secrets import Secret
from llmgw.client.asyncclient import AsyncClient
from llmgw.client.contexts import Context
from llmgw.client.interface import LogBatch
from tests.fakes.clock import FakeClock

SERVER = "http://127.0.0.1:7441"


def client(
    answer: Callable[[httpx.Request], httpx.Response], token: str | None = "tok"
) -> AsyncClient:
    return AsyncClient(
        Context("local", SERVER, Secret(token) if token else None),
        clock=FakeClock(),
        rng=random.Random(1),
        transport=httpx.MockTransport(answer),
    )


async def test_requests_carry_token_version_and_body() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"version": 4})

    async with client(answer) as api:
        assert await api.put("/models/a/../b", {"name": "x"}, version=3) == {"version": 4}
    (request,) = seen
    assert request.url.raw_path == b"/api/v1/models/a/%2E%2E/b"
    assert request.headers["authorization"] == "Bearer tok"
    assert request.headers["if-match"] == "3"
    assert request.headers["content-type"] == "application/json"
    assert request.content == b'{"name":"x"}'


async def test_without_a_token_none_is_sent() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        return httpx.Response(200, json=[])

    async with client(answer, token=None) as api:
        assert await api.get("/nodes") == []


async def test_an_empty_answer_is_none() -> None:
    async with client(lambda _: httpx.Response(204)) as api:
        assert await api.delete("/keys/x") is None


async def test_a_redirect_is_not_followed() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(302, headers={"Location": "http://evil.example/"})

    async with client(answer) as api:
        with pytest.raises(LlmgwError, match="answered 302"):
            await api.get("/nodes")
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (httpx.ConnectError("refused"), Unreachable, "nothing listens at"),
        (httpx.ConnectTimeout("slow"), Unreachable, "no connection in time"),
        (httpx.ReadTimeout("slow"), TimedOut, "did not answer in time"),
        (httpx.RemoteProtocolError("cut"), Unreachable, "cut"),
        (httpx.ReadError(""), Unreachable, "ReadError"),
    ],
)
async def test_what_the_network_does_is_told_in_words(
    raised: httpx.HTTPError, kind: type[LlmgwError], words: str
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise raised

    async with client(answer) as api:
        with pytest.raises(kind, match=words):
            await api.get("/nodes")
        with pytest.raises(kind, match=words):
            async for _ in api.events("/watch", {"topics": "nodes"}):
                pass


class Pieces(httpx.AsyncByteStream):
    """A body in pieces, which may break off."""

    def __init__(self, *pieces: bytes, error: httpx.HTTPError | None = None) -> None:
        self._pieces = pieces
        self._error = error
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        self.closed = True


async def test_log_lines_are_followed_until_the_caller_stops() -> None:
    body = Pieces(b'data: {"lines": ["a", "b"], "dropped"', b": 2}\n\n", b":\n\n", b"data: {}\n\n")

    def answer(request: httpx.Request) -> httpx.Response:
        wanted = b"/api/v1/nodes/gpu-01/logs/follow?source=m-1%2F0&lines=5"
        assert request.url.raw_path == wanted
        return httpx.Response(200, stream=body)

    async with client(answer) as api, aclosing(api.follow_logs("gpu-01", "m-1/0", 5)) as lines:
        assert await anext(lines) == LogBatch(("a", "b"), 2)
    assert body.closed


async def test_an_error_inside_a_stream_is_raised_as_what_it_is() -> None:
    said = (
        b'event: error\ndata: {"error": {"code": "not_found", "message": "gone", "hint": null}}\n\n'
    )
    async with client(lambda _: httpx.Response(200, stream=Pieces(said))) as api:
        with pytest.raises(NotFound, match="gone"):
            async for _ in api.follow_logs("gpu-01"):
                pass


async def test_an_error_before_a_stream_is_raised_as_what_it_is() -> None:
    said = {"error": {"code": "not_found", "message": "no node", "hint": None}}
    async with client(lambda _: httpx.Response(404, json=said)) as api:
        with pytest.raises(NotFound, match="no node"):
            async for _ in api.follow_logs("gpu-01"):
                pass


async def test_a_stream_that_breaks_off_is_unreachable() -> None:
    body = Pieces(b":\n\n", error=httpx.ReadError("cut"))
    async with client(lambda _: httpx.Response(200, stream=body)) as api:
        with pytest.raises(Unreachable, match="cut"):
            async for _ in api.follow_logs("gpu-01"):
                pass


async def test_an_event_that_is_not_json_is_told() -> None:
    async with client(lambda _: httpx.Response(200, stream=Pieces(b"data: {\n\n"))) as api:
        with pytest.raises(Unreadable, match="not JSON"):
            async for _ in api.follow_logs("gpu-01"):
                pass


async def test_a_history_is_asked_for_by_name_and_time_and_is_a_record() -> None:
    told = {
        "step": 10.0,
        "until": 100.0,
        "source": "memory",
        "series": [{"name": "busy", "device": "GPU-1", "unit": "percent", "values": [1, None]}],
    }

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.raw_path == b"/api/v1/nodes/gpu-01/history?series=busy,cpu&minutes=30"
        return httpx.Response(200, json=told)

    async with client(answer) as api:
        found = await api.history("gpu-01", ("busy", "cpu"), 30)
    assert found.series[0].values == (1.0, None)
    assert found.problem is None


async def test_a_history_of_another_shape_is_unreadable() -> None:
    async with client(lambda _: httpx.Response(200, json={"step": "x"})) as api:
        with pytest.raises(Unreadable, match="history"):
            await api.history("gpu-01")
