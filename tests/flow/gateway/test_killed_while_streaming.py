"""`kill -9` under running streams: what was counted is at most a second behind what was told."""

import asyncio
import time

import msgspec
import pytest

from llmgw.model.keys import UsageReport
from tests.fakes.engine import Call, FakeEngine, answer, chat_chunk
from tests.fakes.gateway import KEY
from tests.fakes.rawclient import RawClient
from tests.flow.gateway.process import GatewayProcess, ask, kill, open_streams
from tests.waiting import wait_until

STREAMS = 50
PAUSE = 0.25
"""Seconds between two tokens of a stream."""
LOST_MOST = 1.0


async def ticking(call: Call) -> None:
    """Produce tokens until the client's gateway is gone."""
    call.begin_stream()
    call.event(chat_chunk({"role": "assistant"}))
    while not call.gone.is_set():
        call.event(chat_chunk({"content": "x"}))
        await asyncio.sleep(PAUSE)


class Received:
    """Reads streams to their ends and notes when each token came."""

    def __init__(self, clients: list[RawClient]) -> None:
        self.times: list[float] = []
        self.ended = asyncio.gather(*(self._read(client) for client in clients))

    async def _read(self, client: RawClient) -> None:
        try:
            while b'"x"' in await client.event():
                self.times.append(time.monotonic())
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return

    def before(self, moment: float) -> int:
        return sum(at <= moment for at in self.times)


async def streaming(gateway: GatewayProcess, engine: FakeEngine) -> Received:
    engine.behave = ticking
    received = Received(await open_streams(gateway, STREAMS))
    # Long enough that a second's loss is not everything.
    await wait_until(lambda: received.before(time.monotonic() - 2.0) > STREAMS)
    return received


def counted(gateway: GatewayProcess) -> int:
    """Return the tokens that lie on disk or were told and taken."""
    told = gateway.plane.totals().get((KEY.split("_")[1], "m"))
    kept = [
        msgspec.msgpack.decode(path.read_bytes(), type=UsageReport)
        for path in (gateway.state / "usage").glob("*.usage")
    ]
    reports = [*gateway.plane.usage, *kept]
    newest = {
        (report.boot, report.worker): max(
            row.completion_tokens
            for one in reports
            if (one.boot, one.worker) == (report.boot, report.worker)
            for row in one.totals
        )
        for report in reports
    }
    assert told is None or sum(newest.values()) >= told.completion_tokens
    return sum(newest.values())


@pytest.mark.parametrize("control_plane", ["here", "away"])
async def test_a_killed_gateway_loses_a_second_of_tokens_at_most(
    control_plane: str, gateway: GatewayProcess, engine: FakeEngine
):
    await gateway.start()
    if control_plane == "away":
        await gateway.plane.stop()
    received = await streaming(gateway, engine)
    killed = time.monotonic()
    gateway.parent.kill()
    await gateway.parent.wait()
    await received.ended
    assert received.before(killed - LOST_MOST) <= counted(gateway) <= engine_sent(received)
    # Its successor tells it, once, and goes on.
    before = counted(gateway)
    engine.behave = answer
    if control_plane == "away":
        await gateway.plane.start()
    await gateway.start()
    assert (await ask(gateway)).status == 200
    total = before + 3
    await wait_until(lambda: sum_told(gateway) == total, what=f"{total} tokens told")


async def test_a_killed_worker_loses_a_second_of_its_tokens_at_most(
    gateway: GatewayProcess, engine: FakeEngine
):
    await gateway.start()
    received = await streaming(gateway, engine)
    victim = gateway.workers()[0]
    killed = time.monotonic()
    kill(victim)
    await wait_until(lambda: gateway.workers().get(0, victim) != victim)
    await gateway.answers(200)
    # The other one's streams go on, and all that came before is counted.
    await wait_until(lambda: counted(gateway) >= received.before(killed - LOST_MOST))
    assert counted(gateway) <= engine_sent(received)
    assert not received.ended.done()
    gateway.parent.kill()
    await received.ended


def engine_sent(received: Received) -> int:
    """Return the most that can have been produced: a token of each stream may be on its way."""
    return len(received.times) + 2 * STREAMS


def sum_told(gateway: GatewayProcess) -> int:
    told = gateway.plane.totals().get((KEY.split("_")[1], "m"))
    return 0 if told is None else told.completion_tokens
