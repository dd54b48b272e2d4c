"""A long answer in pieces: whole, compressed for whoever takes that, and given up in time."""

import asyncio
import gzip
from collections.abc import MutableMapping
from typing import Any

import pytest

from llmgw.control.api import pieces
from llmgw.control.api.operation import Pieces
from llmgw.control.api.pieces import PiecesSent
from llmgw.control.metrics.packing import Text

BODY = tuple(f"line {number} of a long answer\n".encode() * 500 for number in range(20))
WHOLE = b"".join(BODY)


class Client:
    """What a server's end of a connection is given; `stuck`: it takes nothing after the head."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self._stuck = stuck

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._stuck and self.sent:
            await asyncio.Event().wait()
        self.sent.append(message)

    async def receive(self) -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def answer(ended: list[str] | None = None) -> Pieces:
    told: list[str] = [] if ended is None else ended
    return Pieces(Text(BODY), "text/plain", lambda: told.append("ended"))


async def answered(accepts: str) -> Client:
    client = Client()
    await PiecesSent(answer(), accepts)({}, client.receive, client.send)
    return client


async def test_it_is_sent_whole_in_its_pieces_with_its_length() -> None:
    client = await answered("")
    assert client.body == WHOLE
    assert client.headers["content-length"] == str(len(WHOLE))
    assert client.headers["content-type"] == "text/plain"
    assert "content-encoding" not in client.headers
    assert [message["more_body"] for message in client.sent[1:]] == [True] * 20 + [False]


@pytest.mark.parametrize("accepts", ["gzip", "deflate, gzip;q=0.5", "br, GZIP ; q=1", "*"])
async def test_it_is_compressed_for_whoever_accepts_that(accepts: str) -> None:
    client = await answered(accepts)
    assert client.headers["content-encoding"] == "gzip"
    assert "content-length" not in client.headers
    assert gzip.decompress(client.body) == WHOLE
    assert len(client.body) < len(WHOLE) / 10


@pytest.mark.parametrize("accepts", ["", "identity", "br", "gzip;q=0", "gzip; q=0.0, br"])
async def test_it_is_not_compressed_for_anybody_else(accepts: str) -> None:
    assert (await answered(accepts)).body == WHOLE


async def test_whether_it_is_compressed_is_said_to_depend_on_the_request() -> None:
    for accepts in ("", "gzip"):
        assert (await answered(accepts)).headers["vary"] == "Accept-Encoding"


async def test_a_client_that_takes_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SEND_SECONDS", 0.01)
    client, ended = Client(stuck=True), list[str]()
    await PiecesSent(answer(ended), "")({}, client.receive, client.send)
    assert (len(client.sent), ended) == (1, ["ended"])


async def test_its_end_is_told_once_however_it_ends() -> None:
    ended: list[str] = []
    client = Client()
    await PiecesSent(answer(ended), "gzip")({}, client.receive, client.send)
    assert ended == ["ended"]
    stuck = Client(stuck=True)
    sending = asyncio.ensure_future(PiecesSent(answer(ended), "")({}, stuck.receive, stuck.send))
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert ended == ["ended", "ended"]


async def test_others_have_their_turn_between_two_pieces() -> None:
    sending = asyncio.ensure_future(answered(""))
    turns = 0
    while not sending.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= len(BODY)
