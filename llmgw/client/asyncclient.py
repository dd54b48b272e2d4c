"""The admin API's client for what stays connected: console, `--watch`, following logs."""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

import httpx
import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, TimedOut, Unreachable, Unreadable
from llmgw.client import history
from llmgw.client.contexts import Context
from llmgw.client.errors import from_answer
from llmgw.client.interface import Decoded, LogBatch, Version, WatchBatch, target
from llmgw.client.oneshot import read_answer
from llmgw.client.sse import EventReader, SentEvent
from llmgw.client.watching import Watch
from llmgw.model.history import NodeHistory

SILENCE = 40.0
"""Seconds without a byte after which an open stream is lost; a comment comes each 15."""


class AsyncClient:
    """A `WatchingClient` over httpx. Close it, or use it as a context manager.

    Proxy variables are not read and redirects are not followed: the token goes to the server of
    the context and nowhere else.

    Args:
        context: the control plane and the token.
        clock: for waiting and for the times that a watch tells.
        rng: for the waits between attempts.
        timeout: seconds for connecting and between two pieces of an answer.
        transport: replaces the network in tests.
    """

    def __init__(
        self,
        context: Context,
        *,
        clock: Clock,
        rng: random.Random,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._context = context
        self._clock = clock
        self._rng = rng
        self._timeout = timeout
        headers = {"Accept": "application/json"}
        if context.token is not None:
            headers["Authorization"] = f"Bearer {context.token.reveal()}"
        self._http = httpx.AsyncClient(
            base_url=context.server,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            transport=transport,
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Decoded:
        """Return what is at a path, decoded."""
        return await self._call("GET", target(path, query))

    async def put(self, path: str, body: object, *, version: Version = None) -> Decoded:
        """Replace what is at a path and return what is there then."""
        return await self._call("PUT", target(path), body, version=version)

    async def post(self, path: str, body: object = None) -> Decoded:
        """Make something and return it."""
        return await self._call("POST", target(path), {} if body is None else body)

    async def delete(self, path: str) -> Decoded:
        """Remove what is at a path; returns None."""
        return await self._call("DELETE", target(path))

    async def history(
        self, node: str, series: Sequence[str] = (), minutes: int = 60
    ) -> NodeHistory:
        """Return how a node was in the last minutes; `series`: which measures, empty for all."""
        query = history.query_of(series, minutes)
        return history.read(await self.get(history.path_of(node), query))

    async def watch(self, topics: Sequence[str]) -> AsyncGenerator[WatchBatch, None]:
        """List the topics once, then yield every change until the caller stops."""
        watch = Watch(self, topics, self._clock, self._rng)
        async with aclosing(watch.follow()) as batches:
            async for batch in batches:
                yield batch

    async def follow_logs(
        self, node: str, source: str | None = None, lines: int = 100
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield the last lines of a node or of a shard on it, then those that come.

        Raises:
            NotFound, Refused, Unreachable: as the control plane says, also while it follows.
        """
        query = {"source": source, "lines": lines}
        async with aclosing(self.events(f"/nodes/{node}/logs/follow", query)) as events:
            async for event in events:
                if event is not None:
                    yield LogBatch(lines=tuple(event["lines"]), dropped=event.get("dropped", 0))

    async def events(
        self, path: str, query: Mapping[str, object]
    ) -> AsyncGenerator[Any | None, None]:
        """Open a stream and yield its events, decoded; None when it opened, and for a comment."""
        reader = EventReader()
        timeout = httpx.Timeout(self._timeout, connect=10.0, read=SILENCE)
        headers = {"Accept": "text/event-stream"}
        try:
            async with self._http.stream(
                "GET", target(path, query), headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise from_answer(
                        answer.status_code, await answer.aread(), self._context.server
                    )
                yield None
                async for piece in answer.aiter_bytes():
                    events = reader.feed(piece)
                    for event in events:
                        yield self._event(event)
                    if not events:
                        yield None
        except httpx.HTTPError as error:
            raise self._explained(error) from error

    def _event(self, event: SentEvent) -> Decoded:
        if event.name == "error":
            raise from_answer(502, event.data, self._context.server)
        try:
            return msgspec.json.decode(event.data)
        except msgspec.DecodeError as error:
            raise Unreadable(f"{self._context.server} sent an event that is not JSON") from error

    async def _call(
        self, method: str, url: str, body: object = None, *, version: Version = None
    ) -> Decoded:
        headers = {} if version is None else {"If-Match": str(version)}
        content: bytes | None = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        try:
            answer = await self._http.request(method, url, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise self._explained(error) from error
        return read_answer(answer.status_code, answer.content, self._context.server)

    def _explained(self, error: httpx.HTTPError) -> LlmgwError:
        server = self._context.server
        if isinstance(error, httpx.ConnectTimeout):
            return Unreachable(f"{server} can't be reached: no connection in time")
        if isinstance(error, httpx.TimeoutException):
            return TimedOut(f"{server} did not answer in time")
        if isinstance(error, httpx.ConnectError):
            return Unreachable(
                f"nothing listens at {server}", hint="is `llmgw server` running there?"
            )
        return Unreachable(f"{server} can't be reached: {str(error) or type(error).__name__}")
