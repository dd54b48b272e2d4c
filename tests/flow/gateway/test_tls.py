"""TLS towards users: shown, renewed under streams, and never by a certificate that is broken."""

import asyncio
import os
import socket
import ssl
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.gateway.tls import HANDSHAKE, CertificateFiles
from tests.fakes.control_plane import HOUR, FakeControlPlane
from tests.fakes.engine import FakeEngine
from tests.fakes.gateway import route, table
from tests.fakes.rawclient import RawClient, chat, post
from tests.flow.gateway.process import GatewayProcess, Streams, ask, open_streams
from tests.waiting import ask_until, wait_until


def issue(plane: FakeControlPlane, directory: Path) -> Path:
    """Write a new certificate with its key for 127.0.0.1; return the file."""
    plane.ca.issue(directory, role="server", subject="users", now=plane.clock.now(), lifetime=HOUR)
    return directory / "identity.pem"


@pytest.fixture
async def gateway(tmp_path: Path, plane: FakeControlPlane):
    made = GatewayProcess(tmp_path / "gateway", plane)
    file = issue(plane, tmp_path / "tls")
    made.config |= {"tls_cert": str(file), "tls_key": str(file), "workers": 1}
    made.tls = ssl.create_default_context(cafile=str(tmp_path / "tls" / "authority.pem"))
    made.tls.set_alpn_protocols(["h2", "http/1.1"])
    yield made
    await made.end()


def certificate_of(client: RawClient) -> bytes:
    return client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)


async def shown(gateway: GatewayProcess) -> bytes:
    client = await RawClient.open(gateway.port, tls=gateway.tls)
    try:
        return certificate_of(client)
    finally:
        client.abort()


async def test_users_connect_over_tls_and_are_told_an_https_url(gateway, plane, engine):
    await gateway.start()
    assert plane.registers[0].url == f"https://127.0.0.1:{gateway.port}"
    client = await RawClient.open(gateway.port, tls=gateway.tls)
    assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    for _ in range(3):
        assert (await client.ask(post(chat(stream=True)))).events[-1] == "[DONE]"
    assert (await client.ask(post(chat(padding="x" * 300_000)))).status == 200
    assert (await client.ask(post(b"{}", b"Connection: close"))).status == 400
    assert await client.ended() == b""
    plain = await RawClient.open(gateway.port)
    await plain.send(post(chat()))
    assert await plain.ended() == b""


async def test_a_client_that_leaves_takes_its_request_with_it(gateway, engine):
    await gateway.start()
    engine.behave = Streams()
    for client in await open_streams(gateway, 5):
        client.abort()
    await wait_until(lambda: not engine.links)


async def test_a_renewed_certificate_is_shown_while_streams_go_on(gateway, plane, engine, tmp_path):
    await gateway.start()
    engine.behave = streams = Streams()
    (client,) = await open_streams(gateway, 1)
    before = certificate_of(client)
    worker = gateway.workers()
    key = tmp_path / "tls" / "identity.pem"
    key.write_text("not a certificate\n")
    await wait_until(lambda: "is not taken" in gateway.log.read_text())
    assert await shown(gateway) == before
    issue(plane, tmp_path / "tls")
    await until_shown_another(gateway, before)
    assert gateway.workers() == worker
    streams.ends.set()
    assert b"last" in await client.event()


async def until_shown_another(gateway: GatewayProcess, before: bytes) -> None:
    async def asked() -> bool:
        return await shown(gateway) != before

    await ask_until(asked, what="another certificate is shown")


async def test_a_worker_that_is_replaced_shows_what_the_one_before_it_did(gateway, tmp_path):
    await gateway.start()
    before = await shown(gateway)
    (tmp_path / "tls" / "identity.pem").unlink()
    (worker,) = gateway.workers().values()
    os.kill(worker, 9)
    assert (await ask(gateway)).status == 200
    assert await shown(gateway) == before


async def test_files_that_cannot_be_used_are_refused_by_name(
    tmp_path: Path, plane: FakeControlPlane, engine: FakeEngine
):
    one, other = issue(plane, tmp_path / "one"), issue(plane, tmp_path / "other")
    with pytest.raises(NotFound, match="nothing: no such file"):
        CertificateFiles(one, tmp_path / "nothing")
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("-----BEGIN" + one.read_text().rpartition("-----BEGIN")[2])
    with pytest.raises(Unreadable, match="not a certificate and its key"):
        CertificateFiles(certificate, certificate_only(tmp_path))
    other.chmod(0o644)
    with pytest.raises(Refused, match="lets others in"):
        CertificateFiles(one, other)


async def test_a_worker_that_leaves_waits_for_a_handshake_that_is_under_way(
    tmp_path: Path, plane: FakeControlPlane, engine: FakeEngine, start_gateway
):
    file = issue(plane, tmp_path / "tls")
    trust = ssl.create_default_context(cafile=str(tmp_path / "tls" / "authority.pem"))
    gateway = await start_gateway(table(route([engine.port])), tls=file.read_bytes())
    with socket.socket() as plain:
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", gateway.port))
        await wait_until(lambda: not gateway.front.door.is_empty)
        assert not gateway.front.connections
        gateway.worker.drain(60.0, gently=True)
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(
            sock=plain.dup(), ssl=trust, server_hostname="127.0.0.1"
        )
        client = RawClient(reader, writer)
        assert (await client.ask(post(chat()))).status == 200
        assert await client.ended() == b""
    await gateway.ended()


async def test_a_handshake_that_failed_is_not_waited_for(
    tmp_path: Path, plane: FakeControlPlane, engine: FakeEngine, start_gateway
):
    file = issue(plane, tmp_path / "tls")
    gateway = await start_gateway(table(route([engine.port])), tls=file.read_bytes())
    client = await RawClient.open(gateway.port)
    await client.send(post(chat()))
    assert await client.ended() == b""
    gateway.front.door.look(gateway.front.deadlines.now() + HANDSHAKE + 0.1)
    gateway.worker.drain(60.0, gently=True)
    await gateway.ended()


def certificate_only(directory: Path) -> Path:
    path = directory / "none.pem"
    path.write_text("nothing\n")
    path.chmod(0o600)
    return path
