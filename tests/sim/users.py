"""Users: they come and go, ask gateways for models, and remember what became of each request."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import httptools

from llmgw.control.plane import Plane
from llmgw.local.sim.loop import Life
from tests.sim.gateway import PORT, SimGateway

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

HELD_FOR = 60.0
FIRST_BYTE = 60.0
ANSWERED_WITHIN = HELD_FOR + 2 * FIRST_BYTE + 15.0
"""Seconds after which every request has its answer or its refusal: it may be held, go to an engine
that never answers, and to one more where the connection broke."""
WAVE_EACH = 45.0
"""Seconds between two waves of users."""
CROWD = 2
"""Users that ask for one model together."""
BROKEN = 0
"""In place of a status: the connection ended without an answer."""


class Asking(asyncio.Protocol):
    """One connection of a user: a request, and the status of its answer."""

    def __init__(self, request: bytes) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._request = request
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(BROKEN)

    def on_message_complete(self) -> None:
        self._end(self._parser.get_status_code())

    def _end(self, status: int) -> None:
        if not self.done.done():
            self.done.set_result(status)


@dataclass
class Users:
    """Sends requests to all gateways.

    Attributes:
        counts: what came of requests, by status.
        late: requests that had no answer in time, in words.
    """

    sim: "Simulation"
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)
    key: str | None = None
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _until: float = 0.0

    async def come_and_go(self, until: float) -> None:
        """Send waves of requests until a time; return when the last has its answer."""
        self._until = until
        while self.sim.loop.time() < until:
            await asyncio.sleep(self.rng.expovariate(1 / WAVE_EACH))
            await self.get_key()
            model = self.rng.choice(sorted(self.sim.operator.models))
            seconds = self.rng.choice((5.0, 20.0, 60.0))
            for _ in range(self.rng.choice((1, 1, 2, 4))):
                self._begin(self._one(model, min(until, self.sim.loop.time() + seconds)))
        while self._running:
            await asyncio.wait(self._running)

    async def ask(self, gateway: SimGateway, model: str) -> int:
        """Return the status of the answer to one request, `BROKEN` where there is none."""
        loop, began = self.sim.loop, self.sim.loop.time()
        life = Life("a user", "127.3.0.1")
        request = _request(model, self.key or "none")
        connecting = loop.live_more(
            life, loop.create_connection(lambda: Asking(request), gateway.host, PORT)
        )
        try:
            _, asking = await connecting
        except OSError:
            self.counts["no gateway"] += 1
            return BROKEN
        await asyncio.wait({asking.done}, timeout=ANSWERED_WITHIN)
        if not asking.done.done():
            if gateway.since < began:
                self.late.append(
                    f"a request for {model} of {began:.0f} s has no answer of {gateway.name}"
                )
            asking.transport.abort()
            return BROKEN
        asking.transport.close()
        status: int = asking.done.result()
        self.counts[f"answered {status}" if status else "connection broke"] += 1
        return status

    def crowd(self, model: str, seconds: float) -> None:
        """Send users for one model, who ask for so long, as long as users come at all."""
        until = min(self._until, self.sim.loop.time() + seconds)
        for _ in range(CROWD if until > self.sim.loop.time() else 0):
            self._begin(self._one(model, until))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _one(self, model: str, until: float) -> None:
        """Be one user: ask, think, ask again."""
        while self.sim.loop.time() < until:
            await self.ask(self.rng.choice(self.sim.gateways), model)
            await asyncio.sleep(self.rng.uniform(0.5, 6.0))

    async def get_key(self) -> None:
        """Have a key made, where they have none."""

        async def made(plane: Plane) -> str:
            _, text = await plane.keys.make("users", actor="operator")
            return text

        if self.key is None:
            self.key = await self.sim.operator.ask("key made", made)


def _request(model: str, key: str) -> bytes:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "6 x 7"}]})
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n"
        f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}"
    ).encode()
