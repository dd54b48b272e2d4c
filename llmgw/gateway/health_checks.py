"""Whether endpoints answer that no agent watches: asked by the gateway itself."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from functools import cache

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.published import STATIC

log = get(__name__)

PERIOD = 5.0
TIMEOUT = 4.0
FAILURES = 2
"""Checks in a row that fail before an endpoint is left out; one that works lets it back."""
AT_ONCE = 32
_PATH = "/models"


class HealthChecks:
    """Asks each static endpoint for its models, and leaves out of routes those that do not answer.

    Only those of `static/…` are asked: replicas have their agents, and providers cost.

    Args:
        routes: returns all routes, with keys.
        changed: told of which models an endpoint began or ceased to answer.
        clock: paces.
    """

    def __init__(
        self,
        routes: Callable[[], Iterable[Route]],
        changed: Callable[[set[str]], None],
        clock: Clock,
    ) -> None:
        self._routes = routes
        self._changed = changed
        self._clock = clock
        self._failed: dict[str, int] = {}
        self._words: dict[str, str] = {}

    def is_up(self, endpoint: Endpoint) -> bool:
        """Say whether an endpoint answers, as far as is known."""
        return self._failed.get(endpoint.replica, 0) < FAILURES

    def answering(self, routes: Iterable[Route]) -> tuple[Route, ...]:
        """Return routes with the endpoints that answer."""
        return tuple(self._answering(route) for route in routes)

    async def run_once(self) -> str:
        """Ask all of them."""
        routes = tuple(self._routes())
        static = {
            one.replica: (one, route.model)
            for route in routes
            for one in route.endpoints
            if one.replica.startswith(f"{STATIC}/")
        }
        self._failed = {name: n for name, n in self._failed.items() if name in static}
        limit = asyncio.Semaphore(AT_ONCE)

        async def look(endpoint: Endpoint, model: str) -> str | None:
            async with limit:
                words = await self._ask(endpoint)
            return model if self._note(endpoint, words) else None

        found = await asyncio.gather(*(look(*one) for one in static.values()))
        models = {model for model in found if model is not None}
        if models:
            self._changed(models)
        down = sum(1 for failed in self._failed.values() if failed >= FAILURES)
        return f"{len(static) - down} of {len(static)} static endpoints answer"

    def _note(self, endpoint: Endpoint, words: str) -> bool:
        """Note what a check found; return whether it is another verdict than before."""
        before, name = self.is_up(endpoint), endpoint.replica
        if words:
            self._failed[name] = min(FAILURES, self._failed.get(name, 0) + 1)
            self._words[name] = words
        else:
            self._failed.pop(name, None)
            self._words.pop(name, None)
        after = self.is_up(endpoint)
        if before != after:
            log.warning("an endpoint answers" if after else "an endpoint fails", endpoint=name)
        return before != after

    def _answering(self, route: Route) -> Route:
        up = tuple(one for one in route.endpoints if self.is_up(one))
        if len(up) == len(route.endpoints):
            return route
        away = next(one.replica for one in route.endpoints if not self.is_up(one))
        words = None if up else f"{away} does not answer: {self._words.get(away, '')}"
        return msgspec.structs.replace(route, endpoints=up, reason=words)

    async def _ask(self, endpoint: Endpoint) -> str:
        """Return why an endpoint is not well; empty when it is."""
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await _status(endpoint)
        except TimeoutError:
            return f"no answer within {TIMEOUT:g} s"
        except (OSError, ValueError, EOFError) as error:
            return f"no answer: {error}"
        return "" if status < 500 else f"it answers {status}"


async def _status(endpoint: Endpoint) -> int:
    reader, writer = await asyncio.open_connection(
        endpoint.host, endpoint.port, ssl=_trusted() if endpoint.tls else None
    )
    try:
        base = "/v1" if endpoint.base_path is None else endpoint.base_path
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        lines = [f"GET {base}{_PATH} HTTP/1.1", f"host: {host}:{endpoint.port}"]
        if endpoint.key is not None:
            lines.append(f"authorization: Bearer {endpoint.key}")
        writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode())
        first = await reader.readline()
        version, status, *_ = first.split()
        if not version.startswith(b"HTTP/1."):
            raise ValueError("that is no HTTP")
        return int(status)
    finally:
        writer.close()


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()
