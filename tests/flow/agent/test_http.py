"""HTTP by httpx against a real server on loopback: our errors, our words, no secrets in them."""

import asyncio
import contextlib
import gzip
from collections.abc import Iterator

import pytest

from llmgw.base.errors import TimedOut, Unreachable, Unreadable
from llmgw_agent.host.http import HttpxHttp
from tests.fakes.file_server import FileServer, Served, serving


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as running:
        yield running


@pytest.fixture
async def http():
    client = HttpxHttp(proxies=False)
    yield client
    await client.close()


async def test_a_whole_answer_has_status_body_and_headers_in_lower_case(server, http):
    server.paths["/x"] = Served(b"hello")
    answer = await http.request("GET", f"{server.url}/x", headers={"X-Key": "k"}, timeout=10)
    assert (answer.status, answer.body, answer.headers["etag"]) == (200, b"hello", '"v1"')
    assert server.paths["/x"].asked[0]["x-key"] == "k"


async def test_an_answer_that_says_no_is_an_answer(server, http):
    assert (await http.request("GET", f"{server.url}/none", timeout=10)).status == 404


async def test_redirects_are_not_followed(server, http):
    server.paths["/x"] = Served(b"", location="/y")
    answer = await http.request("GET", f"{server.url}/x", timeout=10)
    assert (answer.status, answer.headers["location"]) == (302, "/y")


async def test_nobody_there_is_unreachable_and_no_secret_is_quoted(server, http):
    url = server.url
    server.stop()
    address = url.replace("http://", "http://user:hunter2@") + "/x?token=hunter2"
    with pytest.raises(Unreachable) as caught:
        await http.request("GET", address, timeout=10)
    assert "hunter2" not in caught.value.message
    assert url.removeprefix("http://") in caught.value.message


@pytest.mark.parametrize("url", ["ftp://example.org/x", "not an address", "http://"])
async def test_what_is_no_address_is_unreadable(http, url):
    with pytest.raises((Unreadable, Unreachable)):
        await http.request("GET", url, timeout=5)


async def test_a_body_comes_in_pieces_and_its_end_is_seen(server, http):
    body = b"x" * 300_000
    server.paths["/x"] = Served(body)
    async with http.stream("GET", f"{server.url}/x", timeout=10) as answer:
        assert answer.status == 200
        pieces = [piece async for piece in answer.pieces()]
    assert b"".join(pieces) == body
    assert len(pieces) > 1


async def test_a_body_that_breaks_off_is_unreachable(server, http):
    server.paths["/x"] = Served(b"x" * 300_000, cut_after=[1000])
    async with http.stream("GET", f"{server.url}/x", timeout=10) as answer:
        with pytest.raises(Unreachable):
            [piece async for piece in answer.pieces()]


async def test_the_limit_is_the_whole_answers(http):
    gone = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")

        def another() -> None:
            if not gone.is_set():
                writer.write(b"x")
                asyncio.get_running_loop().call_later(0.02, another)

        another()
        with contextlib.suppress(ConnectionError):  # it leaves with bytes unread: a reset
            await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        # Each piece comes in time; the whole does not.
        with pytest.raises(TimedOut):
            await http.request("GET", f"http://127.0.0.1:{port}/", timeout=0.3)
        await asyncio.wait_for(gone.wait(), 5)


async def test_authorities_are_read_when_the_first_address_needs_them(http, server, monkeypatch):
    server.paths["/x"] = Served(b"hello")
    monkeypatch.setattr("ssl.SSLContext.load_verify_locations", None)
    assert (await http.request("GET", f"{server.url}/x", timeout=10)).status == 200
    with pytest.raises(TypeError):
        await http.request("GET", server.url.replace("http://", "https://"), timeout=10)


async def answering(head: str, body: bytes, ended: asyncio.Event) -> asyncio.Server:
    """Return a server that sends the body again and again until nobody reads it any more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        assert b"accept-encoding: identity" in asked.lower()
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
        try:
            while True:
                writer.write(body)
                await writer.drain()
        except ConnectionError:
            ended.set()
        finally:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
async def test_an_answer_without_end_is_cut_off_and_not_kept(http, compressed):
    ended = asyncio.Event()
    piece = gzip.compress(bytes(8 << 20)) if compressed else b"x" * 100_000
    head = "content-encoding: gzip\r\n" if compressed else ""
    server = await answering(head, piece, ended)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(
            Unreadable, match=r"^http://127.0.0.1:\d+/x: answered more than 4 MiB: cut off$"
        ):
            await http.request("GET", f"http://127.0.0.1:{port}/x?key=hunter2", timeout=20)
        # It stopped reading: the server is told.
        await asyncio.wait_for(ended.wait(), 10)
