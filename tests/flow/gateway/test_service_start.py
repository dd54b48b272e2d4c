"""The gateway as a process: what stops it from starting, how it joins, what it keeps to itself."""

import socket
import stat
from pathlib import Path

import pytest

from llmgw.base.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from llmgw.gateway.config import DEFAULT_LINK, GatewayServiceConfig
from llmgw.gateway.membership import beside, enter
from llmgw.gateway.sockets import own_address
from llmgw.gateway.table import decode_table
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.gateway import KEY, key_record, route, table
from tests.flow.gateway.process import GatewayProcess, Streams, ask, open_streams
from tests.waiting import wait_until

# What is wrong at the start: one line, and an exit code.


async def test_a_port_in_use_is_one_line(gateway):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gateway.port = taken.getsockname()[1]
        await refused(gateway, EXIT_USAGE, "the port is in use")


async def test_a_second_gateway_does_not_share_the_port_of_the_first(gateway, tmp_path, plane):
    await gateway.start()
    other = GatewayProcess(tmp_path / "other", plane)
    other.port = gateway.port
    await refused(other, EXIT_USAGE, "the port is in use")


async def test_a_second_gateway_on_the_same_state_is_refused(gateway, tmp_path, plane):
    await gateway.start()
    other = GatewayProcess(tmp_path / "other", plane)
    other.config["state_dir"] = str(gateway.state)
    await refused(other, EXIT_REFUSED, "another gateway uses this state directory")


async def test_a_gateway_that_never_joined_says_how_to(tmp_path, plane):
    gateway = GatewayProcess(tmp_path / "gateway", plane, joined=False)
    await refused(gateway, EXIT_NOT_FOUND, "--join TOKEN")


async def test_beside_a_control_plane_it_needs_neither_a_token_nor_a_file(tmp_path, plane):
    server, state = plane.gateway_files("gateway").parent, tmp_path / "state"
    told_nothing = GatewayServiceConfig()
    found = beside(told_nothing, state, server)
    assert (await enter(found, state, None)).id == "gateway"
    assert found.control_planes == (DEFAULT_LINK,)
    for told in (
        GatewayServiceConfig(control_planes=("head-1:7442",)),
        GatewayServiceConfig(certificate="a", key="b", authority="c"),
    ):
        assert beside(told, state, server) is told
    assert beside(told_nothing, state, tmp_path / "nothing") is told_nothing


def test_users_are_never_told_the_loopback_of_a_control_plane_next_door():
    assert own_address(("127.0.0.1:7442",)) is None
    assert own_address(()) is None


async def test_what_joined_as_another_stays_that_beside_a_control_plane(tmp_path, plane):
    server, state = plane.gateway_files("gateway").parent, tmp_path / "state"
    joined = plane.gateway_files("edge-1")
    (state / "link").parent.mkdir()
    joined.rename(state / "link")
    told_nothing = GatewayServiceConfig()
    assert beside(told_nothing, state, server) is told_nothing
    assert (await enter(told_nothing, state, None)).id == "edge-1"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("workers", 0, "workers: 0"),
        ("url", 5, "url"),
        ("drain", -1, "drain"),
        ("wrokers", 2, "workers"),
    ],
)
async def test_a_configuration_that_cannot_work_is_refused_by_its_field(
    field, value, words, gateway
):
    gateway.config[field] = value
    process = await gateway.spawn()
    assert await process.wait() != EXIT_OK
    assert words in gateway.log.read_text()
    assert "Traceback" not in gateway.log.read_text()


async def refused(gateway: GatewayProcess, code: int, words: str) -> None:
    process = await gateway.spawn()
    assert await process.wait() == code
    lines = gateway.log.read_text().splitlines()
    assert any(words in line for line in lines), lines
    assert len(lines) <= 2  # what is wrong, and what to do
    await gateway.end()


# Certificates and secrets.


async def test_a_token_makes_a_gateway_a_member_once(tmp_path, plane):
    gateway = GatewayProcess(tmp_path / "gateway", plane, joined=False)
    token = plane.join_token("gw-2")
    try:
        await gateway.start("--join", "-", stdin=token.encode() + b"\n")
        assert plane.registers[0].gateway == "gw-2"
        gateway.parent.terminate()
        await gateway.parent.wait()
        del gateway.config["control_planes"]
        await gateway.start()
        await wait_until(lambda: len(plane.registers) == 2, 20.0, what="it finds its way back")
        assert plane.registers[-1].gateway == "gw-2"
        gateway.config["control_planes"] = [plane.address]
        gateway.parent.terminate()
        await gateway.parent.wait()
        process = await gateway.spawn("--join", token)
        assert await process.wait() == EXIT_REFUSED
        assert "was used" in gateway.log.read_text()
    finally:
        await gateway.end()


async def test_a_certificate_is_renewed_over_the_live_stream_and_used_after(tmp_path, engine):
    # Long enough for a gateway to start on a busy machine.
    plane = FakeControlPlane(tmp_path / "control", lifetime=12.0)
    await plane.start()
    plane.table = table(route([engine.port]))
    gateway = GatewayProcess(tmp_path / "gateway", plane)
    try:
        await gateway.start()
        engine.behave = streams = Streams()
        (client,) = await open_streams(gateway, 1)
        await wait_until(lambda: plane.renewed >= 2, timeout=40.0)
        assert (gateway.state / "link" / "identity.pem").exists()
        await plane.stop()
        await plane.start()
        await gateway.answers(200, control_plane="here")
        streams.ends.set()
        assert b"last" in await client.event()
    finally:
        await gateway.end()
        await plane.stop()


async def test_secrets_are_in_private_files_and_nowhere_else(gateway, plane):
    plane.takes_usage = False
    await gateway.start()
    await ask(gateway)
    await wait_until(lambda: list((gateway.state / "usage").glob("*.usage")))
    await wait_until((gateway.state / "table").exists)
    assert decode_table((gateway.state / "table").read_bytes()) == plane.table
    for path in (gateway.state, *gateway.state.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
    secrets = [KEY, "engine-key-of-m-0", key_record().sha256]
    for pid in (gateway.parent.pid, *gateway.workers().values()):
        shown = argv_and_environ(pid)
        assert not [one for one in secrets if one.encode() in shown]
    assert not [one for one in secrets if one in gateway.log.read_text()]


def argv_and_environ(pid: int) -> bytes:
    place = Path(f"/proc/{pid}")
    return (place / "cmdline").read_bytes() + (place / "environ").read_bytes()


async def test_a_kept_table_that_others_may_read_is_refused_with_the_command(gateway, plane):
    await gateway.start()
    kept = gateway.state / "table"
    await wait_until(kept.exists)
    gateway.parent.terminate()
    await gateway.parent.wait()
    kept.chmod(0o644)
    process = await gateway.spawn()
    assert await process.wait() == EXIT_REFUSED
    assert f"chmod 600 {kept}" in gateway.log.read_text()


async def test_a_kept_table_that_is_broken_costs_only_itself(gateway):
    gateway.state.mkdir(mode=0o700, parents=True)
    for name in ("table", "usage/b-0.usage"):
        path = gateway.state / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(b"\x93nonsense")
        path.chmod(0o600)
    await gateway.start()
    assert (await ask(gateway)).status == 200
    assert "the kept table can't be read" in gateway.log.read_text()
