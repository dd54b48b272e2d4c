"""An engine that does what a test tells it, over real sockets on loopback."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass
class Call:
    """One request as the engine got it, and the way to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    link: "EngineLink"
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the other side closed the connection."""

    @property
    def json(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.body))

    def write(self, data: bytes) -> None:
        if not self.gone.is_set():
            self.link.transport.write(data)

    def reply(
        self, value: object, status: int = 200, headers: bytes = b"", *, close: bool = False
    ) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            % (status, headers, len(body), body)
        )
        if close:
            self.link.transport.close()

    def begin_stream(self) -> None:
        self.write(
            b"HTTP/1.1 200 OK\r\nServer: fake\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

    def chunk(self, data: bytes) -> None:
        self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, value: object) -> None:
        text = (
            value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        )
        self.chunk(b"data: %b\n\n" % text)

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")

    def close(self) -> None:
        self.link.transport.close()

    def abort(self) -> None:
        self.link.transport.abort()


Behaviour = Callable[[Call], Awaitable[None]]


class EngineLink(asyncio.Protocol):
    """One connection to the engine."""

    transport: asyncio.Transport

    def __init__(self, engine: "FakeEngine") -> None:
        self.engine = engine
        self.held = b""
        self.calls: list[Call] = []
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.engine.links.add(self)
        self.engine.opened += 1

    def data_received(self, data: bytes) -> None:
        self.held += data
        while True:
            head, end, rest = self.held.partition(b"\r\n\r\n")
            if not end:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = first.split(" ")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self.held = rest[length:]
            self._serve(Call(method, path, headers, rest[:length], self))

    def _serve(self, call: Call) -> None:
        self.engine.calls.append(call)
        self.calls.append(call)
        task = asyncio.ensure_future(self._run(call))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, call: Call) -> None:
        self.engine.running += 1
        try:
            await self.engine.behave(call)
        finally:
            self.engine.running -= 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.engine.links.discard(self)
        for call in self.calls:
            call.gone.set()


class FakeEngine:
    """Listens on a free loopback port and answers every request with `behave`."""

    def __init__(self, behave: Behaviour | None = None, name: str = "engine") -> None:
        self.behave: Behaviour = behave or answer
        self.name = name
        self.calls: list[Call] = []
        self.links: set[EngineLink] = set()
        self.opened = 0
        self.running = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> "FakeEngine":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: EngineLink(self), "127.0.0.1", port, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Stop listening and reset every connection."""
        if self._server is not None:
            self._server.close()
        tasks = [task for link in self.links for task in link.tasks]
        for link in tuple(self.links):
            link.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "engine-name",
        "choices": [choice],
    }


def usage_chunk(prompt: int, completion: int) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "engine-name",
        "choices": [],
        "usage": usage,
    }


WORDS = ("one", " two", " three")
PROMPT_TOKENS = 7


async def answer(call: Call) -> None:
    """Answer as an engine does: three tokens, streamed or not, and the usage."""
    asked = call.json
    usage = usage_chunk(PROMPT_TOKENS, len(WORDS))
    if not asked.get("stream"):
        message = {"role": "assistant", "content": "".join(WORDS)}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        call.reply({**usage, "object": "chat.completion", "choices": choices})
        return
    call.begin_stream()
    call.event(chat_chunk({"role": "assistant", "content": None}))
    for word in WORDS:
        call.event(chat_chunk({"content": word}))
        await asyncio.sleep(0)
    call.event(chat_chunk({}, "stop"))
    if (asked.get("stream_options") or {}).get("include_usage"):
        call.event(usage)
    call.event(b"[DONE]")
    call.end_stream()


async def prefill(call: Call) -> None:
    """Think until the other side leaves."""
    await call.gone.wait()


async def loading(call: Call) -> None:
    """Say what llama-server says while it loads."""
    error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
    call.reply({"error": error}, status=503)


async def reset(call: Call) -> None:
    """Break the connection without a word."""
    call.abort()
