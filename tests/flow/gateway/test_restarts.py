"""Workers that are replaced while they serve: no connection is refused, no reply is lost."""

import asyncio
import signal
from functools import partial

from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import FakeEngine, answer
from tests.fakes.rawclient import RawClient, chat, get, post
from tests.flow.gateway.process import GatewayProcess, Streams, alive, ask, open_streams
from tests.waiting import wait_until


async def restarted(gateway: GatewayProcess, before: dict[int, int]) -> None:
    """Wait until other workers listen, and new connections are theirs alone."""
    gateway.parent.send_signal(signal.SIGHUP)
    words = "a new worker serves"
    await wait_until(
        lambda: gateway.log.read_text().count(words) == len(before), 20.0, what="new workers"
    )


def all_workers(gateway: GatewayProcess) -> set[int]:
    return set(gateway.workers().values())


async def test_a_restart_of_all_workers_loses_nothing(
    gateway: GatewayProcess, plane: FakeControlPlane, engine: FakeEngine
):
    await gateway.start()
    before = gateway.workers()
    engine.behave = streams = Streams()
    streaming = await open_streams(gateway, 12)
    engine.behave = answer
    idle = [await RawClient.open(gateway.port) for _ in range(12)]
    for client in idle:
        assert (await client.ask(get(b"/v1/models"))).headers.get("connection") is None
    over = asyncio.Event()
    askers = [asyncio.ensure_future(asks_on(gateway, over)) for _ in range(4)]
    await restarted(gateway, before)
    asked = [await ask(gateway) for _ in range(10)]
    over.set()
    counts = await asyncio.gather(*askers)
    assert {reply.status for reply in asked} == {200}

    assert set(before.values()) <= all_pids(gateway)  # for the streams and the idle connections
    for client in idle:
        reply = await client.ask(post(chat()))
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await client.ended() == b""
    streams.ends.set()
    ends = await asyncio.gather(*(client.ended() for client in streaming))
    assert all(end.endswith(b"0\r\n\r\n") and b"last" in end for end in ends)
    await wait_until(lambda: not any(alive(pid) for pid in before.values()), 10.0)
    requests = 12 + 12 + 10 + sum(counts)
    await wait_until(partial(counted, plane, requests))
    assert {report.worker for report in plane.usage} <= {0, 1, 2, 3}


async def asks_on(gateway: GatewayProcess, over: asyncio.Event) -> int:
    """Ask on kept connections until told otherwise; return how often. Nothing may fail."""
    count = 0
    while not over.is_set():
        client = await RawClient.open(gateway.port)
        closed = False
        while not closed and not over.is_set():
            reply = await client.ask(post(chat()))
            assert reply.status == 200
            assert reply.complete
            count += 1
            closed = reply.headers.get("connection") == "close"
        client.abort()
    return count


def all_pids(gateway: GatewayProcess) -> set[int]:
    gateway.workers()
    return {pid for pid in gateway._pids if alive(pid)}


async def test_a_second_restart_uses_the_places_of_the_first_and_totals_go_on(
    gateway: GatewayProcess, plane: FakeControlPlane
):
    gateway.config["workers"] = 1
    await gateway.start()
    for number in range(1, 4):
        before = all_workers(gateway)
        assert (await ask(gateway)).status == 200
        gateway.parent.send_signal(signal.SIGHUP)
        await wait_until(partial(is_replaced, gateway, before), 20.0, what="a new worker")
        await wait_until(partial(counted, plane, number))
    rows = [row.requests for report in plane.usage for row in report.totals]
    assert max(rows) == 2  # two places took turns


def is_replaced(gateway: GatewayProcess, before: set[int]) -> bool:
    return not any(alive(pid) for pid in before) and bool(all_workers(gateway))


def counted(plane: FakeControlPlane, requests: int) -> bool:
    row = plane.totals().get(("k1", "m"))
    return row is not None and row.requests == requests


async def test_told_to_end_while_old_workers_finish_it_ends_within_its_drain(
    gateway: GatewayProcess, engine: FakeEngine
):
    gateway.config["drain"] = 0.3
    await gateway.start()
    before = gateway.workers()
    engine.behave = Streams()
    (client,) = await open_streams(gateway, 1)
    await restarted(gateway, before)
    gateway.parent.terminate()
    assert b"gateway_stopping" in await client.ended()
    async with asyncio.timeout(10.0):
        assert await gateway.parent.wait() == 0


async def test_a_control_plane_has_workers_restarted_and_hears_when_each_began(
    gateway: GatewayProcess, plane: FakeControlPlane, engine: FakeEngine
):
    await gateway.start()
    await wait_until(lambda: plane.workers and len(plane.workers[-1].workers) == 2)
    before, pids = plane.workers[-1].workers, all_workers(gateway)
    engine.behave = streams = Streams()
    (client,) = await open_streams(gateway, 1)
    plane.restart("somebody")
    await wait_until(lambda: gateway.log.read_text().count("a new worker serves") == 2, 20.0)
    assert "somebody" in gateway.log.read_text()
    streams.ends.set()
    assert b"last" in await client.event()
    await wait_until(lambda: not any(alive(pid) for pid in pids), 10.0)
    await wait_until(lambda: {one.worker for one in plane.workers[-1].workers} == {2, 3})
    after = plane.workers[-1].workers
    assert min(one.began for one in after) > max(one.began for one in before)
