"""A gateway whose one engine is slow, so that requests wait for it."""

import asyncio
import json

from llmgw.gateway.frames import Counted, Waiting
from llmgw.gateway.table import Table
from llmgw.model.gateway import ModelTraffic, Route
from tests.fakes.engine import Call, FakeEngine, answer
from tests.fakes.gateway import GatewayHere, endpoint, key_record, table
from tests.fakes.rawclient import RawClient, Reply, chat, post
from tests.waiting import wait_until

OTHER = "llmgw_k2_" + "t" * 43
REQUEST = post(chat())
STREAM = post(chat(stream=True))


def state(engine: FakeEngine, most: int | None = 1, **settings: object) -> Table:
    """A model with one replica that serves so many requests at once."""
    one = endpoint(engine.port, "m-0", concurrency=most)
    keys = [key_record(OTHER)] if "keys" not in settings else settings.pop("keys")
    route = Route(model="m", endpoints=(one,), wanted=1)
    return table(route, keys=keys, **settings)  # type: ignore[arg-type]


class Slow:
    """An engine whose requests end one by one, when it is told."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._may_end = asyncio.Semaphore(0)

    async def __call__(self, call: Call) -> None:
        self.calls.append(call)
        await self._may_end.acquire()
        await answer(call)

    def end(self, count: int = 1) -> None:
        for _ in range(count):
            self._may_end.release()


def queued(gateway: GatewayHere) -> int:
    gateway.front.tidy()
    told = [report.counts for report in gateway.reports if isinstance(report, Waiting)]
    return told[-1].get("m", 0) if told else 0


def traffic(gateway: GatewayHere) -> ModelTraffic:
    gateway.worker.tell()
    reports = [one for one in gateway.reports if isinstance(one, Counted)]
    return [row for one in reports for row in one.traffic if row.model == "m"][-1]


async def ask(gateway: GatewayHere, connect, request: bytes = REQUEST):
    client: RawClient = await connect(gateway)
    return client, asyncio.ensure_future(client.ask(request))


async def fill(gateway: GatewayHere, connect, slow: Slow) -> "asyncio.Task[Reply]":
    """Send the request that takes the only place."""
    _, first = await ask(gateway, connect)
    await wait_until(lambda: len(slow.calls) == 1)
    return first


async def ends_with(client: RawClient) -> list[object]:
    """The events of a stream whose head was read, without comments."""
    data = b""
    while chunk := await client.event():
        data += chunk
    events = [one.removeprefix(b"data: ") for one in data.split(b"\n\n") if one]
    return [json.loads(one) for one in events if one[:1] == b"{"]
