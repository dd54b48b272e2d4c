"""The gateway as processes: what dies, what goes on, and what is still known afterwards."""

import asyncio
import os
import signal
import socket
from functools import partial

import msgspec

from llmgw.base.errors import EXIT_OK
from llmgw.gateway.service import COUNTS_PERIOD
from llmgw.model.feed import KEYS, ROUTES, Change, KeyChange
from llmgw.model.gateway import Route, TrafficReport
from llmgw.model.keys import UsageReport
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import FakeEngine, answer, prefill
from tests.fakes.gateway import KEY, key_record, route, table
from tests.fakes.rawclient import RawClient, chat, get, post
from tests.flow.gateway.process import (
    PLAIN,
    STREAM,
    GatewayProcess,
    Streams,
    alive,
    ask,
    kill,
    open_streams,
)
from tests.waiting import wait_until

UNKNOWN = "llmgw_k9_" + "v" * 43


# Serving.


async def test_workers_share_one_port_and_both_serve(gateway, plane):
    await gateway.start()
    assert len(gateway.workers()) == 2
    for _ in range(20):
        assert (await ask(gateway)).status == 200
    await wait_until(lambda: sum(row.requests for row in plane.totals().values()) == 20)
    assert {report.worker for report in plane.traffic} == {0, 1}
    (register,) = plane.registers
    assert (register.gateway, register.workers) == ("gw-1", 2)
    assert register.url == f"http://127.0.0.1:{gateway.port}"


async def test_changes_reach_every_worker(gateway, plane, start_engine):
    await gateway.start()
    new = "llmgw_k5_" + "w" * 43
    plane.tell(Change(topic=KEYS, id="k5", record=KeyChange(value=key_record(new))))
    await until_all(gateway, post(chat(), b"Connection: close", key=new), 200)
    plane.tell(Change(topic=KEYS, id="k5"), Change(topic=ROUTES, id="m"))
    await until_all(gateway, post(chat(), b"Connection: close", key=new), 401)
    await until_all(gateway, PLAIN, 404)
    other = await start_engine()
    plane.show(table(route([other.port], model="n")))
    await until_all(gateway, post(chat("n"), b"Connection: close"), 200)


async def until_all(gateway: GatewayProcess, request: bytes, status: int) -> None:
    for _ in range(500):
        if {(await ask(gateway, request)).status for _ in range(8)} == {status}:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not {status} everywhere")


def sums_to(engines: list[FakeEngine], number: int) -> bool:
    return sum(one.running for one in engines) == number


async def test_a_change_is_told_to_have_reached_when_every_worker_serves_by_it(gateway, plane):
    await gateway.start()
    for number in range(10):
        text = f"llmgw_fresh{number}_" + "t" * 43
        tell_key(plane, text)
        await wait_until(lambda: plane.position in plane.reached)
        asked = post(chat(), b"Connection: close", key=text)
        # Connections are spread over the workers by their ports.
        assert {(await ask(gateway, asked)).status for _ in range(6)} == {200}


async def test_a_worker_that_hangs_is_not_said_to_have_a_change_until_it_is_replaced(
    gateway, plane
):
    await gateway.start()
    await wait_until(lambda: plane.position in plane.reached, timeout=10.0)
    hanging = gateway.workers()[0]
    os.kill(hanging, signal.SIGSTOP)
    tell_key(plane, "llmgw_whilehanging_" + "t" * 43)
    kept = gateway.state / "table"
    # The file itself comes with a pass of its own, which may not have run yet.
    await wait_until(
        lambda: kept.exists() and b"whilehanging" in kept.read_bytes(), what="the parent has it"
    )
    assert plane.position not in plane.reached
    kill(hanging)
    await wait_until(lambda: plane.position in plane.reached, timeout=10.0)


def tell_key(plane: FakeControlPlane, text: str) -> None:
    record = key_record(text)
    plane.tell(Change(topic=KEYS, id=record.id, record=KeyChange(value=record)))


async def test_what_is_in_flight_is_seen_by_all_workers(gateway, plane, engine, start_engine):
    engine.behave = prefill
    other = await start_engine(prefill)
    plane.table = table(route([engine.port, other.port]))
    await gateway.start()
    clients = []
    for number in range(1, 13):
        clients.append(await RawClient.open(gateway.port))
        await clients[-1].send(STREAM)
        await wait_until(partial(sums_to, [engine, other], number))
        assert abs(engine.running - other.running) <= 1
    for client in clients:
        client.abort()
    await wait_until(lambda: engine.running + other.running == 0, timeout=1.0)


async def test_an_engine_that_cannot_be_reached_is_told_upwards(gateway, plane, engine):
    await gateway.start()
    await engine.stop()
    assert (await ask(gateway)).status == 503
    down = await wait_until(lambda: plane.down)
    assert down[0].replica == "m-0"
    assert "refused" in down[0].words
    await wait_until(lambda: failed(plane) == {"m-0": 1})
    await engine.start(engine.port)
    async with asyncio.timeout(10):
        while failed(plane) != {}:  # the worker that failed there has to be asked again
            await ask(gateway)


# A worker dies.


async def test_a_killed_worker_takes_only_its_own_streams_and_refuses_no_connection(
    gateway, engine
):
    await gateway.start()
    engine.behave = streams = Streams()
    clients = await open_streams(gateway, 200)
    victim = gateway.workers()[0]
    kill(victim)
    engine.behave = answer
    asked = await asyncio.gather(*(ask(gateway) for _ in range(40)))
    assert {reply.status for reply in asked} == {200}
    streams.ends.set()
    ends = await asyncio.gather(*(client.ended() for client in clients))
    whole = [end for end in ends if b"[DONE]" in end]
    assert 0 < len(whole) < 200
    await wait_until(lambda: 0 in gateway.workers() and gateway.workers()[0] != victim)
    assert gateway.parent.returncode is None


async def test_totals_survive_the_death_of_a_worker_and_its_requests_are_forgotten(
    tmp_path, plane, engine
):
    gateway = GatewayProcess(tmp_path / "gateway", plane)
    gateway.config["workers"] = 1
    try:
        await gateway.start()
        for _ in range(3):
            await ask(gateway)
        await wait_until(lambda: plane.totals() and plane.totals()["k1", "m"].requests == 3)
        engine.behave = prefill
        client = await RawClient.open(gateway.port)
        await client.send(STREAM)
        await wait_until(lambda: engine.running and plane.traffic[-1].models[-1].in_flight == 1)
        kill(gateway.workers()[0])
        await client.ended()
        engine.behave = answer
        await ask(gateway)
        await wait_until(lambda: plane.totals()["k1", "m"].requests == 5)
        # A request is told of when it begins: its end comes with a later report.
        await wait_until(lambda: replies(plane.traffic) == 4)
        (traffic,) = (model for model in plane.traffic[-1].models if model.model == "m")
        assert (traffic.in_flight, traffic.replies[0].count) == (0, 4)
        rows = [row.requests for report in plane.usage for row in report.totals]
        assert rows == sorted(rows)
    finally:
        await gateway.end()


async def test_a_worker_that_hangs_dies_with_its_parent(gateway):
    await gateway.start()
    workers = gateway.workers()
    os.kill(workers[0], signal.SIGSTOP)
    gateway.parent.kill()
    await wait_until(lambda: not any(alive(pid) for pid in workers.values()), timeout=2.0)


# The control plane is away.


async def test_without_the_control_plane_known_keys_are_served_and_unknown_ones_told_to_wait(
    gateway, plane
):
    await gateway.start()
    await gateway.answers(200, control_plane="here")
    assert (await ask(gateway, post(chat(), key=UNKNOWN))).status == 401
    await plane.stop()
    await gateway.answers(200, control_plane="away")
    assert (await ask(gateway)).status == 200
    reply = await ask(gateway, post(chat(), key=UNKNOWN))
    assert (reply.status, reply.code) == (503, "key_not_known_yet")
    await plane.start()
    await gateway.answers(200, control_plane="here")
    assert (await ask(gateway, post(chat(), key=UNKNOWN))).status == 401
    assert len(plane.registers) == 2


async def test_what_was_counted_without_a_control_plane_is_told_to_one_that_welcomes_late(
    gateway, plane
):
    await gateway.start()
    await ask(gateway)
    await plane.stop()
    for _ in range(9):
        assert (await ask(gateway)).status == 200
    plane.traffic.clear()
    plane.welcomes = False
    await plane.start()
    (waiting,) = await wait_until(lambda: plane.unwelcome, timeout=15.0)
    # Longer than the gateway's own period of telling: what it had to tell must still be news.
    later = plane.clock.monotonic() + 3 * COUNTS_PERIOD
    await wait_until(lambda: plane.clock.monotonic() > later)
    plane.welcome(waiting)
    await wait_until(lambda: replies(plane.traffic) == 10, timeout=10.0)


def replies(reports: list[TrafficReport]) -> int:
    newest = {(one.boot, one.worker): one for one in reports}
    return sum(
        reply.count
        for report in newest.values()
        for model in report.models
        if model.model == "m"
        for reply in model.replies
    )


async def test_streams_go_on_while_the_control_plane_goes_and_comes(gateway, plane, engine):
    await gateway.start()
    engine.behave = streams = Streams()
    (client,) = await open_streams(gateway, 1)
    await plane.stop()
    await plane.start()
    await gateway.answers(200, control_plane="here")
    streams.ends.set()
    assert b"last" in await client.event()


async def test_what_is_in_flight_at_an_engine_is_told_until_its_reply_ended(gateway, plane, engine):
    await gateway.start()
    engine.behave = streams = Streams()
    (client,) = await open_streams(gateway, 1)
    (endpoint,) = plane.table.routes["m"].endpoints
    await wait_until(lambda: loads(plane) == {endpoint.replica: 1})
    await wait_until(lambda: [one.score for one in plane.loads[-1].replicas] == [1.0])
    plane.show(table(Route(model="m", reason="drained")))
    await wait_until(lambda: plane.reached and plane.reached[-1] == plane.position)
    assert (await ask(gateway)).status == 503
    assert loads(plane) == {endpoint.replica: 1}
    await plane.stop()
    plane.loads.clear()
    await plane.start()
    await wait_until(lambda: loads(plane) == {endpoint.replica: 1})
    streams.ends.set()
    assert b"last" in await client.event()
    await wait_until(lambda: loads(plane) == {})


def failed(plane: FakeControlPlane) -> dict[str, int] | None:
    """For how many workers a replica failed, as the gateway said last."""
    if not plane.loads or not plane.loads[-1].tells_failures:
        return None
    return {one.replica: one.failed_at for one in plane.loads[-1].replicas if one.failed_at}


def loads(plane: FakeControlPlane) -> dict[str, int] | None:
    """What the gateway said last."""
    if not plane.loads:
        return None
    return {one.replica: one.in_flight for one in plane.loads[-1].replicas}


async def test_a_gateway_that_never_saw_a_control_plane_calls_nobody_wrong(gateway, plane):
    await plane.stop()
    await gateway.start(table=False)
    for key in (KEY, UNKNOWN, None):
        reply = await ask(gateway, post(chat(), b"Connection: close", key=key))
        assert (reply.status, reply.code) == (503, "no_table")
    await plane.start()
    await gateway.answers(200)
    assert (await ask(gateway)).status == 200


async def test_usage_is_told_again_until_it_is_taken(gateway, plane):
    plane.takes_usage = False
    await gateway.start()
    for _ in range(5):
        await ask(gateway)
    files = gateway.state / "usage"
    await wait_until(lambda: files.exists() and list(files.iterdir()))
    await plane.stop()
    await ask(gateway)
    plane.takes_usage = True
    await plane.start()
    await wait_until(
        lambda: plane.totals().get(("k1", "m")) and plane.totals()["k1", "m"].requests == 6
    )
    await wait_until(lambda: not list(files.iterdir()))


# The parent dies, or is told to end.


async def test_a_killed_parent_takes_its_workers_with_it_and_frees_the_port(gateway):
    await gateway.start()
    workers = gateway.workers()
    gateway.parent.kill()
    await gateway.parent.wait()
    await wait_until(lambda: not any(alive(pid) for pid in workers.values()), timeout=1.0)
    with socket.create_server(("127.0.0.1", gateway.port)):
        pass


async def test_a_restarted_gateway_serves_from_its_table_and_tells_what_the_killed_one_counted(
    gateway, plane
):
    await gateway.start()
    await plane.stop()
    for _ in range(4):
        assert (await ask(gateway)).status == 200
    # What is counted lies on disk within a second, whoever is killed after that.
    await wait_until(lambda: requests_on_disk(gateway) == 4, timeout=1.5)
    gateway.parent.kill()
    await gateway.parent.wait()
    await gateway.start()
    await gateway.answers(200, control_plane="away")
    assert (await ask(gateway)).status == 200
    assert (await ask(gateway, post(chat(), key=UNKNOWN))).code == "key_not_known_yet"
    await plane.start()
    await wait_until(
        lambda: plane.totals().get(("k1", "m")) and plane.totals()["k1", "m"].requests == 5
    )
    assert len({report.boot for report in plane.usage}) == 2
    assert plane.totals()["k1", "m"].completion_tokens == 15


def requests_on_disk(gateway: GatewayProcess) -> int:
    reports = [
        msgspec.msgpack.decode(path.read_bytes(), type=UsageReport)
        for path in (gateway.state / "usage").glob("*.usage")
    ]
    return sum(row.requests for report in reports for row in report.totals)


async def test_told_to_end_it_lets_replies_finish_and_takes_no_new_ones(gateway, engine, plane):
    await gateway.start()
    engine.behave = streams = Streams()
    clients = await open_streams(gateway, 6)
    idle = await RawClient.open(gateway.port)
    assert (await idle.ask(get(b"/v1/models"))).status == 200
    workers = gateway.workers()
    gateway.parent.terminate()
    assert await idle.ended() == b""
    await wait_until(lambda: refuses(gateway.port))
    assert gateway.parent.returncode is None
    streams.ends.set()
    ends = await asyncio.gather(*(client.ended() for client in clients))
    assert all(end.endswith(b"0\r\n\r\n") and b"last" in end for end in ends)
    async with asyncio.timeout(5.0):
        assert await gateway.parent.wait() == EXIT_OK
    assert not any(alive(pid) for pid in workers.values())
    assert plane.totals()["k1", "m"].requests == 6


async def test_replies_that_do_not_finish_within_the_drain_end_visibly(gateway, engine):
    gateway.config["drain"] = 0.3
    await gateway.start()
    engine.behave = Streams()
    (client,) = await open_streams(gateway, 1)
    gateway.parent.terminate()
    assert b"gateway_stopping" in await client.ended()
    assert await gateway.parent.wait() == EXIT_OK


async def test_told_twice_it_ends_at_once(gateway, engine):
    gateway.config["drain"] = 60.0
    await gateway.start()
    engine.behave = Streams()
    await open_streams(gateway, 1)
    gateway.parent.terminate()
    await wait_until(lambda: refuses(gateway.port))
    gateway.parent.terminate()
    async with asyncio.timeout(10.0):
        assert await gateway.parent.wait() == EXIT_OK


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return True
    return False
