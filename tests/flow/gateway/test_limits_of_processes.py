"""Limits of keys over the processes of a gateway: workers, their ends, restarts, slices."""

import asyncio

from llmgw.model.feed import KEYS, Change, KeyChange
from llmgw.model.gateway import QUOTAS
from llmgw.model.keys import QuotaFigures, QuotaGrant, QuotaReport, QuotaSlice
from llmgw.model.link import GatewayControl
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.gateway import key_record
from tests.fakes.rawclient import chat, post
from tests.flow.gateway.process import GatewayProcess, ask, kill
from tests.waiting import wait_until


async def until_served_by(plane: FakeControlPlane, gateway: GatewayProcess) -> None:
    position = plane.position
    await wait_until(lambda: position in plane.reached)


async def wait_until_answered(gateway: GatewayProcess, request: bytes, status: int) -> None:
    """Wait until both workers answer so."""
    async with asyncio.timeout(10):
        while {(await ask(gateway, request)).status for _ in range(8)} != {status}:
            pass


async def test_workers_share_limits_which_a_kill_of_one_and_a_restart_do_not_forget(
    plane: FakeControlPlane, gateway: GatewayProcess
) -> None:
    await gateway.start()
    assert QUOTAS in (plane.registers[-1].features or ())
    limited = key_record(requests_per_minute=6, tokens_per_day=500)
    plane.tell(Change(topic=KEYS, id="k1", record=KeyChange(value=limited)))
    await until_served_by(plane, gateway)
    seen = [(await ask(gateway)).status for _ in range(4)]  # a connection each: to any worker
    assert seen == [200] * 4
    workers = gateway.workers()
    kill(workers[0])
    await wait_until(lambda: gateway.workers().get(0, workers[0]) != workers[0])
    assert [(await ask(gateway)).status for _ in range(3)] == [200, 200, 429]
    # The leader lends: the slice is what is kept to, and what was used is told.
    lent = QuotaSlice(
        key="k1", slice=QuotaFigures(requests_per_minute=5, tokens_per_day=50), more=True
    )
    (stream,) = plane.streams
    stream.send(GatewayControl(quotas=QuotaGrant(gateways=2, slices=(lent,))))
    told = await wait_until(lambda: plane.quotas and plane.quotas[-1])
    assert isinstance(told, QuotaReport)
    (use,) = told.keys
    assert use.used.requests_per_minute == 6
    assert use.held == QuotaFigures(requests_per_minute=5, tokens_per_day=50)
    # While the store is away no key is called wrong, and known ones are served.
    unknown = post(chat(), b"Connection: close", key="llmgw_k9_" + "v" * 43)
    assert (await ask(gateway, unknown)).status == 401
    stream.send(GatewayControl(quotas=QuotaGrant(gateways=0, store_away=True)))
    await wait_until_answered(gateway, unknown, 503)
    assert (await ask(gateway, unknown)).code == "key_not_known_yet"
    stream.send(GatewayControl(quotas=QuotaGrant(gateways=0)))
    await wait_until_answered(gateway, unknown, 401)
    # Another start knows the day and the slice; without a control plane both stay in force.
    await plane.stop()
    gateway.parent.terminate()
    await gateway.parent.wait()
    await gateway.start()
    reply = await ask(gateway)
    assert (reply.status, reply.code) == (429, "over_tokens_per_day")
