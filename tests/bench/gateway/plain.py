"""Engines and clients in Python, where there is no C compiler: the same words, at a higher cost."""

import asyncio
import json
import statistics
import sys
import time
from typing import Any, cast

import uvloop

PORTS, CHUNKS, PAUSE = 4, 64, 0.02
_TEXT = "x" * 400
_USAGE = {"prompt_tokens": 12, "completion_tokens": 64, "total_tokens": 76}
_MESSAGE = {"role": "assistant", "content": _TEXT}
_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}],
    "usage": _USAGE,
}
_DELTA = {"index": 0, "delta": {"content": " token"}, "finish_reason": None}
_CHUNK = {**_ANSWER, "object": "chat.completion.chunk", "choices": [_DELTA]}
_CHUNK.pop("usage")


def _whole(value: object) -> bytes:
    body = json.dumps(value, separators=(",", ":")).encode()
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


def _event(text: bytes) -> bytes:
    data = b"data: " + text + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = _whole(_ANSWER)
CHUNK = _event(json.dumps(_CHUNK, separators=(",", ":")).encode())
LAST = (
    _event(json.dumps({**_CHUNK, "choices": [], "usage": _USAGE}).encode())
    + _event(b"[DONE]")
    + b"0\r\n\r\n"
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class PlainEngine(asyncio.Protocol):
    """One connection to one of the engines."""

    streams = 0
    asked = [0] * PORTS
    transport: asyncio.Transport

    def __init__(self, number: int) -> None:
        self.number = number
        self.held = b""
        self.streaming = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over()

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, blank, body = self.held.partition(b"\r\n\r\n")
        lowered = head.lower()
        at = lowered.find(b"content-length:")
        length = int(lowered[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0
        if not blank or len(body) < length:
            return
        self.held = body[length:]
        if head.startswith(b"GET /stats"):
            said = {"streams": PlainEngine.streams, "requests": PlainEngine.asked}
            self.transport.write(_whole(said))
        elif head.startswith(b"GET "):
            self.transport.write(_whole({"status": "ok", "object": "list", "data": [{"id": "m"}]}))
        else:
            self.answer(body)

    def answer(self, body: bytes) -> None:
        PlainEngine.asked[self.number] += 1
        kind = body.partition(b"bench:")[2][:5]
        if kind in {b"", b"short"}:
            self.transport.write(ANSWER)
            return
        self.streaming = True
        PlainEngine.streams += 1
        if kind == b"quiet":
            return
        self.transport.write(HEAD)
        if kind == b"idle ":
            self.transport.write(CHUNK)
        elif kind == b"burst":
            self.transport.write(CHUNK * CHUNKS + LAST)
            self.over()
        else:
            self.pace(CHUNKS)

    def pace(self, left: int) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(CHUNK if left else LAST)
        if left:
            asyncio.get_running_loop().call_later(PAUSE, self.pace, left - 1)
        else:
            self.over()

    def over(self) -> None:
        PlainEngine.streams -= self.streaming
        self.streaming = False


async def engine() -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda number=number: PlainEngine(number), "127.0.0.1", 0)  # type: ignore[misc]
        for number in range(PORTS)
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


class PlainLoad:
    """Clients that ask for one thing."""

    def __init__(self, port: int, asked: bytes) -> None:
        self.port = port
        self.asked = asked
        self.seen: dict[str, Any] = {"replies": 0, "events": 0, "errors": 0, "refused": 0}
        self.took: list[float] = []
        self.turn = 0

    def request(self) -> bytes:
        self.turn += 1
        numbered = self.asked.replace(b"CONV0000", b"CONV%04d" % (self.turn % 64))
        return numbered.replace(b"TURN00000000", b"TURN%08d" % self.turn)

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ask once and read the reply."""
        began = time.perf_counter()
        writer.write(self.request())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        self.seen["refused"] += head[9:12] != b"200"
        if b"transfer-encoding: chunked" in head:
            body = await reader.readuntil(b"0\r\n\r\n")
        else:
            at = head.find(b"content-length:") + 15
            body = await reader.readexactly(int(head[at:].split(b"\r\n")[0]))
        self.seen["replies"] += 1
        self.seen["events"] += body.count(b"data: ")
        self.took.append(time.perf_counter() - began)

    async def one(self, end: float, pause: float) -> None:
        """Ask again and again on one connection."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
            due = time.perf_counter()
            while time.perf_counter() < end:
                await self.ask(reader, writer)
                due += pause
                await asyncio.sleep(max(0.0, due - time.perf_counter()) if pause else 0)
            writer.close()
        except (OSError, EOFError):
            self.seen["errors"] += 1

    async def repeat(self, count: int, seconds: float, rate: float) -> None:
        """Ask on so many connections for so long; print what was seen."""
        began = time.perf_counter()
        pause = count / rate if rate else 0.0
        await asyncio.gather(*(self.one(began + seconds, pause) for _ in range(count)))
        took = sorted(self.took) or [-1.0]
        self.seen["seconds"] = time.perf_counter() - began
        self.seen["median_ms"] = statistics.median(took) * 1000
        self.seen["p99_ms"] = took[len(took) * 99 // 100] * 1000
        print(json.dumps(self.seen), flush=True)

    async def hold(self, count: int, *, quiet: bool) -> None:
        """Open so many requests, and close all when told."""
        writers = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(self.request())
            writers.append(writer)
            if not quiet:
                await reader.readuntil(b"\r\n\r\n")
        print(json.dumps({"open": count, **self.seen}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for writer in writers:
            writer.transport.abort()
        print(1, flush=True)


async def load(mode: str, port: int, count: int, *more: float) -> None:
    """Be one run of clients; the request stands on standard input behind its length."""
    size = int(sys.stdin.readline())
    clients = PlainLoad(port, sys.stdin.read(size).encode())
    if mode == "repeat":
        seconds, rate = (*more, 0.0)[:2]
        await clients.repeat(count, seconds, rate)
    else:
        await clients.hold(count, quiet=mode == "quiet")


if __name__ == "__main__":
    if sys.argv[1] == "engine":
        uvloop.run(engine())
    else:
        uvloop.run(load(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *map(float, sys.argv[5:])))
