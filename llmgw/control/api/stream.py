"""Server-sent events as an answer that ends well, whoever ends it."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.control.api.answer import HEADERS, error_answer, internal_error
from llmgw.control.api.operation import Sent

logger = log.get(__name__)

COMMENT_SECONDS = 15.0
LAST_SECONDS = 1.0
"""How long the end of a stream may take to leave."""


class EventStream(Response):
    """Sends events until they end, the client goes, the token ends or the server stops.

    A client that does not read holds back its own events and nothing else: `send` waits for it.

    Args:
        sent: the events.
        clock: what comments are timed by.
        ending: set when the server stops.
        still: says whether the client's token still opens; asked with each comment.
    """

    def __init__(
        self,
        sent: Sent[Any],
        *,
        clock: Clock,
        ending: asyncio.Event,
        still: Callable[[], bool],
    ) -> None:
        super().__init__(status_code=200, headers=HEADERS, media_type="text/event-stream")
        del self.headers["content-length"]
        self._sent = sent
        self._clock = clock
        self._ending = ending
        self._still = still
        self._writing = asyncio.Lock()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            await _first(self._pump(send), self._beat(send), _gone(receive), _set(self._ending))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._close()

    async def _pump(self, send: Send) -> None:
        try:
            async for event in self._sent.events:
                await self._write(send, b"data: " + msgspec.json.encode(event) + b"\n\n")
        except LlmgwError as error:
            await self._tell(send, error)
        except Exception as error:  # the top of a request: told, logged, ended
            logger.error("an event stream failed", exc_info=error)
            await self._tell(send, internal_error())

    async def _beat(self, send: Send) -> None:
        while self._still():
            await self._clock.sleep(COMMENT_SECONDS)
            await self._write(send, b":\n\n")

    async def _tell(self, send: Send, error: LlmgwError) -> None:
        body = msgspec.json.encode(error_answer(error)[1])
        await self._write(send, b"event: error\ndata: " + body + b"\n\n")

    async def _write(self, send: Send, data: bytes) -> None:
        async with self._writing:
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _close(self) -> None:
        if self._sent.close is not None:
            self._sent.close()
        aclose = getattr(self._sent.events, "aclose", None)
        if aclose is not None:
            await aclose()


async def _first(*ends: Coroutine[Any, Any, None]) -> None:
    """Run all until one is over, then end the others."""
    tasks = [asyncio.ensure_future(end) for end in ends]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _set(event: asyncio.Event) -> None:
    await event.wait()
