"""What the listener itself does: limits, bad HTTP, signals, ends."""

import asyncio
import signal
import socket
import time

import httpx
import msgspec
import pytest
import uvloop
from starlette.applications import Starlette

from llmgw.base.errors import Usage
from llmgw.control.api import serve as serving
from llmgw.control.api.app import build
from llmgw.control.api.serve import Running, serve
from tests.fakes.plane import FakePlane
from tests.waiting import wait_until


async def talk(port: int, data: bytes, *, until_close: bool = True) -> bytes:
    """Send bytes and return what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(10):
            return await (reader.read() if until_close else reader.readuntil(b"\r\n\r\n"))
    finally:
        writer.close()


def request(path: str, token: str = "", *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: admin", "Connection: close", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode()


async def test_it_answers_on_a_free_port_that_it_tells(running: Running) -> None:
    answer = await talk(running.port, request("/healthz"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b'{"status":"ok"}')
    assert b"server:" not in answer.lower()


async def test_metrics_are_open_on_a_loopback_listener(running: Running) -> None:
    answer = await talk(running.port, request("/metrics"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"text/plain; version=0.0.4" in answer
    assert b'llmgw_nodes{state="ready"} 1\n' in answer


async def test_metrics_are_compressed_for_a_scraper_that_accepts_it(running: Running) -> None:
    plain = await talk(running.port, request("/metrics"))
    answer = await talk(running.port, request("/metrics", "", "Accept-Encoding: gzip"))
    assert b"\r\ncontent-encoding: gzip\r\n" in answer
    assert len(answer) < len(plain) / 2
    async with httpx.AsyncClient() as http:  # asks for gzip, and reads it
        text = (await http.get(f"http://127.0.0.1:{running.port}/metrics")).text
    assert 'llmgw_nodes{state="ready"} 1\n' in text


async def test_the_head_of_metrics_has_no_body(running: Running) -> None:
    asked = request("/metrics").replace(b"GET", b"HEAD")
    head, _, body = (await talk(running.port, asked)).partition(b"\r\n\r\n")
    assert (b" 200 " in head, body) == (True, b"")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_metrics_need_a_token_on_any_other_listener(plane: FakePlane, host: str) -> None:
    running = await serve(build(plane), host, 0)
    try:
        # From loopback, to a listener that is not: nobody is trusted by address.
        assert b" 401 " in (await talk(running.port, request("/metrics"))).splitlines()[0]
        token = plane.tokens_by_role["metrics"]
        assert b" 200 " in (await talk(running.port, request("/metrics", token))).splitlines()[0]
    finally:
        await running.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n X: folded\r\nbad header\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000,
        b"GET /" + b"y" * 70_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    ],
    ids=range(9),
)
async def test_bad_http_is_answered_with_400_and_closed(running: Running, data: bytes) -> None:
    answer = await talk(running.port, data)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert await talk(running.port, request("/healthz"))


async def test_a_length_beside_chunks_does_not_split_a_request(running: Running) -> None:
    smuggled = b"GET /api/v1/nodes HTTP/1.1\r\nHost: a\r\n\r\n"
    both = (
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
        + str(len(smuggled) + 5).encode()
        + b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + smuggled
    )
    answer = await talk(running.port, both)
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_head_that_does_not_come_is_not_waited_for(
    plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.3)
    running = await serve(build(plane), "127.0.0.1", 0)
    try:
        for beginning in (b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: "):
            assert await broken_off(running.port, beginning) == b""
        whole = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        answered = await broken_off(running.port, whole, b"GET /he")
        assert answered.count(b"HTTP/1.1 200") == 1
    finally:
        await running.stop()


async def broken_off(port: int, *pieces: bytes) -> bytes:
    """Send pieces, each after an answer to the one before; return all until the server gave up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    unsent = list(pieces)
    writer.write(unsent.pop(0))
    try:
        async with asyncio.timeout(5):
            while piece := await reader.read(65536):
                found += piece
                if unsent:
                    writer.write(unsent.pop(0))
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return found


async def test_a_stream_is_not_ended_by_the_limit_for_heads(
    plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    running = await serve(build(plane), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    try:
        target = "/api/v1/watch?topics=nodes"
        writer.write(request(target, plane.tokens_by_role["read"]))
        async with asyncio.timeout(10):
            await reader.readuntil(b'"changes":')
            begun = time.monotonic()
            await wait_until(lambda: time.monotonic() - begun > 0.6)
            plane.fake_fleet.put("nodes", "atlas", None)
            await reader.readuntil(b'"record":null')
    finally:
        writer.close()
        await running.stop()


async def test_a_client_that_goes_leaves_no_follower(plane: FakePlane, running: Running) -> None:
    target = "/api/v1/watch?topics=nodes"
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(request(target, plane.tokens_by_role["read"]))
    await reader.readuntil(b'"changes":')
    assert plane.feed.followers == 1
    writer.transport.abort()
    await wait_until(lambda: plane.feed.followers == 0, what="the follower is closed")


async def test_stopping_ends_streams_at_once_and_properly(plane: FakePlane) -> None:
    running = await serve(build(plane), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    target = "/api/v1/watch?topics=nodes"
    writer.write(request(target, plane.tokens_by_role["read"]))
    await reader.readuntil(b'"changes":')
    begun = time.monotonic()
    await running.stop()
    assert time.monotonic() - begun < 2
    assert (await reader.read()).endswith(b"0\r\n\r\n")
    writer.close()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", running.port)
    await running.wait()


async def test_a_client_that_does_not_read_does_not_hold_up_the_end(plane: FakePlane) -> None:
    running = await serve(build(plane), "127.0.0.1", 0)
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    stalled.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(stalled, ("127.0.0.1", running.port))
    await loop.sock_sendall(
        stalled, request("/api/v1/watch?topics=nodes", plane.tokens_by_role["read"])
    )
    node = plane.fake_fleet.nodes()[0]
    large = {f"label-{number}": "x" * 200 for number in range(20_000)}
    await wait_until(lambda: plane.feed.followers == 1)
    plane.fake_fleet.put("nodes", "atlas", msgspec.structs.replace(node, labels=large))
    await asyncio.wait_for(running.stop(), 10)
    stalled.close()
    assert plane.feed.followers == 0


async def test_signals_stay_with_whoever_runs_the_process(plane: FakePlane) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    running = await serve(build(plane), "127.0.0.1", 0)
    during = {one: signal.getsignal(one) for one in before}
    await running.stop()
    assert during == before


async def test_a_port_in_use_is_told_in_one_line(plane: FakePlane, running: Running) -> None:
    with pytest.raises(Usage) as told:
        await serve(build(plane), "127.0.0.1", running.port)
    assert told.value.message == (
        f"the admin API can't listen on 127.0.0.1:{running.port}: something else listens there"
    )
    assert "--admin" in (told.value.hint or "")
    assert "\n" not in told.value.message


@pytest.mark.parametrize(
    ("host", "words"),
    [("192.0.2.1", "can't listen on 192.0.2.1"), ("no such host!", "can't listen on no such")],
)
async def test_an_address_that_is_not_ours_is_told(plane: FakePlane, host: str, words: str) -> None:
    with pytest.raises(Usage, match=words):
        await serve(build(plane), host, 0)


async def test_sockets_that_listen_already_are_taken(plane: FakePlane) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    running = await serve(build(plane), "ignored", 1, sockets=[listening])
    try:
        assert running.port == port
        assert b"ok" in await talk(port, request("/healthz"))
    finally:
        await running.stop()


async def test_a_fault_in_the_application_is_no_traceback(
    running: Running, plane: FakePlane
) -> None:
    del plane.fake_gateways.known
    answer = await talk(running.port, request("/api/v1/gateways", plane.tokens_by_role["read"]))
    assert b" 500 " in answer.splitlines()[0]
    assert b"Traceback" not in answer
    assert b"AttributeError" not in answer


async def test_the_application_is_what_was_built(plane: FakePlane) -> None:
    app = build(plane)
    assert isinstance(app, Starlette)
    assert app.state.loopback is False


async def test_these_tests_run_on_the_loop_of_the_product() -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
