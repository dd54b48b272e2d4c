"""`--tls cluster`: users see what the cluster signs, and nobody is listened to before that."""

import asyncio
import ssl
from pathlib import Path

import pytest

from llmgw.gateway.table import Table
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import FakeEngine
from tests.fakes.gateway import route, table
from tests.fakes.rawclient import RawClient
from tests.flow.gateway.process import PLAIN, GatewayProcess, Streams, ask, open_streams
from tests.waiting import ask_until, wait_until

LOCAL = ("127.0.0.1",)


def named(engine: FakeEngine, *names: str) -> Table:
    return table(route([engine.port]), tls_names=names)


@pytest.fixture
async def gateway(tmp_path: Path, plane: FakeControlPlane, engine: FakeEngine):
    plane.table = named(engine, *LOCAL)
    made = GatewayProcess(tmp_path / "gateway", plane)
    made.config |= {"tls": "cluster", "workers": 1}
    made.tls = trusting(plane, tmp_path)
    yield made
    await made.end()


def trusting(plane: FakeControlPlane, directory: Path) -> ssl.SSLContext:
    authority = directory / "authority.pem"
    authority.write_text(plane.ca.certificate_pem)
    return ssl.create_default_context(cafile=str(authority))


async def shown(gateway: GatewayProcess) -> bytes:
    client = await RawClient.open(gateway.port, tls=gateway.tls)
    try:
        found: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found
    finally:
        client.abort()


async def until_another_is_shown(gateway: GatewayProcess, before: bytes) -> None:
    async def another() -> bool:
        return await shown(gateway) != before

    await ask_until(another, what="another certificate is shown")


async def test_users_are_shown_a_certificate_that_the_cluster_signed_for_the_names_it_says(
    gateway, plane, engine
):
    await gateway.start()
    assert plane.registers[0].url == f"https://127.0.0.1:{gateway.port}"
    assert (await ask(gateway)).status == 200
    kept = gateway.state / "users" / "identity.pem"
    assert kept.stat().st_mode & 0o777 == 0o600
    # It is no certificate of the link's: it opens nothing there.
    assert kept.read_bytes() != (plane.directory / "gw-1" / "identity.pem").read_bytes()


async def test_nobody_is_listened_to_before_there_is_a_certificate(gateway, plane):
    plane.signs = False
    await gateway.spawn()
    await wait_until(lambda: plane.unsigned, 20.0, what="it asks for one")
    gateway.port = gateway.told_port() or 0
    # The kernel takes a connection into the socket's queue, where nobody answers it yet.
    waiting = asyncio.ensure_future(shown(gateway))
    plain = await RawClient.open(gateway.port)
    await plain.send(PLAIN)
    assert plane.reached == []
    assert not waiting.done()
    plane.sign(*plane.unsigned[0])
    assert await waiting
    assert await plain.ended() == b""


async def test_other_names_and_a_renewal_are_shown_while_streams_go_on(gateway, plane, engine):
    await gateway.start()
    engine.behave = streams = Streams()
    (client,) = await open_streams(gateway, 1)
    before, worker = await shown(gateway), gateway.workers()
    plane.show(named(engine, *LOCAL, "models.example.org"))
    await until_another_is_shown(gateway, before)
    assert gateway.workers() == worker
    streams.ends.set()
    assert b"last" in await client.event()


async def test_what_was_signed_is_shown_again_after_a_start_without_a_control_plane(
    gateway, plane, tmp_path
):
    await gateway.start()
    before = await shown(gateway)
    await wait_until((gateway.state / "table").exists)
    gateway.parent.kill()
    await gateway.parent.wait()
    await plane.stop()
    await gateway.start()
    assert await shown(gateway) == before
    assert (await ask(gateway)).status == 200
