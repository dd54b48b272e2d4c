"""Requests that reach a simulated machine's engines over connections, as a gateway opens them."""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Final, cast

import httptools

from llmgw.local.sim.engine import Engine
from llmgw.local.sim.machine import Machine
from llmgw.local.sim.network import End

_REPLY: Final = (
    b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"42"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}'
)
_HEAD: Final = b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"

Asked = Callable[[Machine, Engine, str], None]
"""Told of each request that an engine takes, with the address that it came from."""


def door(machine: Machine, asked: Asked) -> Callable[[int], Callable[[], "Asking"] | None]:
    """Return what answers on a machine's ports: its engines.

    Args:
        machine: whose engines they are.
        asked: told of each request that an engine takes.
    """

    def at(port: int) -> Callable[[], Asking] | None:
        engine = machine.listening(port)
        return None if engine is None else partial(Asking, machine, engine, asked)

    return at


class Asking(asyncio.Protocol):
    """One connection to an engine; one request at a time."""

    _transport: asyncio.Transport

    def __init__(self, machine: Machine, engine: Engine, asked: Asked) -> None:
        self._machine = machine
        self._engine = engine
        self._asked = asked
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[str, str] = {}
        self._path = ""
        self.began = 0.0
        """When it took the request that it works on."""

    @property
    def client(self) -> str:
        """Return the address that it comes from."""
        host: str = self._transport.get_extra_info("peername")[0]
        return host

    @property
    def there(self) -> bool:
        """Say whether whoever asked is still connected."""
        return isinstance(self._transport, End) and self._transport.whole

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if not self._engine.alive:
            self._transport.abort()
        elif not self._engine.hung:
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Work on it no longer."""
        self._engine.working.pop(self, None)

    # What httptools calls.

    def on_url(self, url: bytes) -> None:
        """Take the path."""
        self._path = url.decode()
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head."""
        self._headers[name.decode().lower()] = value.decode()

    def on_message_complete(self) -> None:
        """Answer, or begin to work on it."""
        engine = self._engine
        answer = engine.answer(self._path, self._headers)
        if answer is None:
            return
        if answer.status != 200:
            self._reply(answer.status, answer.body)
            return
        self.began = asyncio.get_running_loop().time()
        self._asked(self._machine, engine, self.client)
        engine.working[self] = self._transport.abort
        loop = asyncio.get_running_loop()
        seconds = engine.character.replies
        loop.call_later(seconds, self._done, context=contextvars.Context())

    def _done(self) -> None:
        engine = self._engine
        if self not in engine.working or engine.hung or engine.stalled:
            return  # it is gone, or never gets done
        del engine.working[self]
        engine.tokens += 1
        self._reply(200, _REPLY)

    def _reply(self, status: int, body: bytes) -> None:
        self._transport.write(_HEAD % (status, len(body)) + body)
