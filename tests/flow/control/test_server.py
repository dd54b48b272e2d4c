"""The control plane as a service: what it makes, what it refuses, how agents and restarts go."""

import json
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from llmgw.base.errors import Refused, Usage
from llmgw.control.config import ServerConfig
from llmgw.control.server import Machine, Ready, Server
from llmgw.link.own import own_certificate
from llmgw.link.tls import files_in
from llmgw.model.node import LOST, READY, UNREACHABLE
from tests.fakes.linked_agent import LinkedAgent
from tests.fakes.planes import cpu_model
from tests.flow.control.conftest import Start
from tests.waiting import wait_until

FAST = {
    "link": {"heartbeat_interval": 0.3, "lost_after": 2.0},
    "reconcile": {"period": 0.2, "settling": 5.0},
}


@asynccontextmanager
async def agent_of(
    server: Server, ready: Ready, tmp_path: Path, node: str = "n1"
) -> AsyncIterator[LinkedAgent]:
    """Join with a token, dial, and stop at the end."""
    _, token = await server.plane.join_token("node", node, actor="test")
    agent = LinkedAgent(node, tmp_path / node, ready.link)
    await agent.join(token)
    agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


async def fast(server: Server) -> None:
    for path, value in FAST.items():
        await server.plane.settings.put(path, value, actor="test")


def liveness(server: Server, node: str = "n1") -> str | None:
    known = server.plane.fleet.node(node)
    return known.liveness if known is not None else None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_an_empty_state_directory_is_filled_and_the_token_opens_the_api(
    serving: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    async with serving() as (server, ready):
        token = (state / "admin.token").read_text().strip()
        assert mode(state) == 0o700
        private = [one for one in state.rglob("*") if one.is_file()]
        assert {mode(one) for one in private} == {0o600}
        gateway = own_certificate(files_in(state / "gateway")).identity
        assert (gateway.role, gateway.id, gateway.cluster) == ("gateway", "cp-1", "llmgw")
        context = json.loads((tmp_path / "config" / "llmgw" / "config.yaml").read_text())
        assert context["contexts"]["local"] == {
            "server": ready.admin,
            "token_file": str(state / "admin.token"),
        }
        assert ready.context == "local"
        async with httpx.AsyncClient(base_url=ready.admin) as http:
            assert (await http.get("/api/v1/status")).status_code == 401
            answer = await http.get("/api/v1/status", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["leader"]) == (200, True)
        assert server.plane.term == 1
    printed = capsys.readouterr()
    assert token not in printed.out + printed.err


async def test_a_second_start_keeps_everything_and_writes_no_context(
    serving: Start, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    async with serving() as (server, _):
        secret = server.plane.key_of("r")
        _, text = await server.plane.keys.make("app", actor="test")
        token = (state / "admin.token").read_text()
        authority = server.plane.authority.sha256
        gateway = (state / "gateway" / "identity.pem").read_bytes()
    async with serving() as (server, ready):
        assert server.plane.key_of("r") == secret
        assert [key.name for key in server.plane.keys.all()] == ["app"]
        assert (state / "admin.token").read_text() == token
        assert server.plane.authority.sha256 == authority
        assert (state / "gateway" / "identity.pem").read_bytes() == gateway
        assert (server.plane.term, ready.context) == (2, None)
    assert text not in (state / "store.sqlite").read_bytes().decode("latin-1")


async def test_a_second_control_plane_on_the_same_store_is_refused_and_the_first_goes_on(
    serving: Start, config: ServerConfig, machine: Machine
) -> None:
    async with serving() as (server, ready):
        second = Server(config, machine)
        with pytest.raises(Refused, match=r"control plane 'cp-1' .* holds this store"):
            await second.start()
        async with httpx.AsyncClient(base_url=ready.admin) as http:
            assert (await http.get("/leader")).status_code == 200
        assert server.plane.term == 1


@pytest.mark.parametrize("which", ["admin", "link"])
async def test_a_port_in_use_is_one_line_that_names_it_and_the_flag_and_leaves_nothing_held(
    serving: Start, config: ServerConfig, machine: Machine, tmp_path: Path, which: str
) -> None:
    other = msgspec.structs.replace(config, state_dir=str(tmp_path / "other"))
    async with serving() as (_, ready):
        taken = {"admin": ready.admin.removeprefix("http://"), "link": ready.link}[which]
        clashing = msgspec.structs.replace(other, **{which: taken})
        with pytest.raises(Usage) as refused:
            await Server(clashing, machine).start()
        assert taken in refused.value.message
        assert "\n" not in refused.value.message
        assert f"--{which}" in (refused.value.hint or "")
        async with serving(other) as (again, _):
            assert again.plane.leader


async def test_a_store_without_its_ca_is_refused(
    serving: Start, config: ServerConfig, machine: Machine, tmp_path: Path
) -> None:
    async with serving():
        pass
    (tmp_path / "state" / "authority").rename(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="there is a store and no CA"):
        Server(config, machine)


@pytest.mark.parametrize("lost", ["missing", "empty"])
async def test_a_lost_store_is_not_taken_for_a_new_cluster(
    lost: str, serving: Start, config: ServerConfig, machine: Machine, tmp_path: Path
) -> None:
    async with serving():
        pass
    for file in (tmp_path / "state").glob("store.sqlite*"):
        file.unlink()
    if lost == "empty":
        (tmp_path / "state" / "store.sqlite").touch(mode=0o600)
    with pytest.raises(Refused, match=r"store\.sqlite: is missing or empty") as refused:
        Server(config, machine)
    assert "a copy" in (refused.value.hint or "")
    shutil.rmtree(tmp_path / "state" / "server")
    async with serving() as (server, _):
        assert server.plane.leader


@pytest.mark.parametrize("address", ["7441", "127.0.0.1", "127.0.0.1:99999", ":7441"])
async def test_an_address_without_its_form_is_refused(address: str, machine: Machine) -> None:
    with pytest.raises(Usage, match="is not an address"):
        Server(ServerConfig(admin=address), machine)


async def test_an_agent_joins_registers_is_cut_and_returns_over_the_real_link(
    serving: Start, tmp_path: Path
) -> None:
    async with serving() as (server, ready):
        await fast(server)
        async with agent_of(server, ready, tmp_path) as agent:
            await wait_until(lambda: liveness(server) == READY)
            await server.plane.catalog.put(cpu_model(), None, actor="test")
            await wait_until(lambda: [r.state for r in server.plane.fleet.replicas()] == [READY])
            before = list(server.plane.executor.sent)
            assert [one.kind for one in before] == ["start"]
            agent.cut()
            await wait_until(lambda: agent.dialer.opened == 2, what="a second stream")
            await wait_until(lambda: server.plane.agents.connected("n1"))
            assert server.plane.agents.opened == 2
            assert [r.state for r in server.plane.fleet.replicas()] == [READY]
            assert list(server.plane.executor.sent) == before


async def test_a_node_that_falls_silent_is_unreachable_then_lost_and_back(
    serving: Start, tmp_path: Path
) -> None:
    async with serving() as (server, ready):
        await fast(server)
        async with agent_of(server, ready, tmp_path) as agent:
            await wait_until(lambda: liveness(server) == READY)
            address, agent.address = agent.address, "127.0.0.1:1"
            agent.beating = False
            await wait_until(lambda: liveness(server) == UNREACHABLE)
            await wait_until(lambda: liveness(server) == LOST)
            assert not server.plane.agents.connected("n1")
            agent.address, agent.beating = address, True
            await wait_until(lambda: liveness(server) == READY)
            assert agent.dialer.opened == 2


async def test_a_restart_on_the_same_store_rebuilds_replicas_and_commands_nothing(
    serving: Start, config: ServerConfig, tmp_path: Path
) -> None:
    async with serving() as (server, ready):
        await fast(server)
        _, token = await server.plane.join_token("node", "n1", actor="test")
        agent = LinkedAgent("n1", tmp_path / "n1", ready.link)
        await agent.join(token)
        agent.start()
        await wait_until(lambda: liveness(server) == READY)
        await server.plane.catalog.put(cpu_model(), None, actor="test")
        await wait_until(lambda: [r.state for r in server.plane.fleet.replicas()] == [READY])
        replica = server.plane.fleet.replicas()[0].id
    commands = len(agent.commands)
    same_port = msgspec.structs.replace(config, link=ready.link)
    async with serving(same_port) as (again, _):
        await wait_until(lambda: liveness(again) == READY)
        passes = again.plane.passes["reconcile"].passes
        await wait_until(lambda: again.plane.passes["reconcile"].passes > passes + 5)
        assert [r.id for r in again.plane.fleet.replicas()] == [replica]
        assert list(again.plane.executor.sent) == []
        assert len(agent.commands) == commands
        assert again.plane.term == 2
        await agent.stop()


async def test_a_certificate_is_renewed_over_a_live_stream_and_used_at_the_next_dial(
    serving: Start, tmp_path: Path
) -> None:
    async with serving() as (server, ready):
        await server.plane.settings.put("certificates.lifetime", 60.0, actor="test")
        async with agent_of(server, ready, tmp_path) as agent:
            await wait_until(lambda: liveness(server) == READY)
            assert agent.own is not None
            first = agent.own.identity
            agent.renew()
            await wait_until(lambda: agent.own and agent.own.identity.serial != first.serial)
            assert agent.dialer.opened == 1
            agent.cut()
            await wait_until(lambda: agent.dialer.opened == 2)
            await wait_until(lambda: server.plane.agents.connected("n1"))
            node = server.plane.fleet.node("n1")
            assert node is not None
            assert node.certificate_ends == agent.own.identity.ends


async def test_a_removed_node_is_cut_and_refused_in_words_until_it_joins_anew(
    serving: Start, tmp_path: Path
) -> None:
    async with serving() as (server, ready):
        await fast(server)
        async with agent_of(server, ready, tmp_path) as agent:
            await wait_until(lambda: liveness(server) == READY)
            await server.plane.membership.remove("n1", actor="ada")
            await wait_until(lambda: "removed from the cluster" in agent.dialer.state)
            assert server.plane.fleet.nodes() == ()
            _, token = await server.plane.join_token("node", "n1", actor="ada")
            await agent.join(token)
            await wait_until(lambda: liveness(server) == READY)


async def test_two_machines_with_one_id_over_the_real_link(serving: Start, tmp_path: Path) -> None:
    async with serving() as (server, ready):
        await fast(server)
        async with agent_of(server, ready, tmp_path) as first:
            await wait_until(lambda: liveness(server) == READY)
            second = LinkedAgent("n1", tmp_path / "clone", ready.link)
            second.machine = "boot-2"
            _, token = await server.plane.join_token("node", "n1", actor="test")
            await second.join(token)
            second.start()
            try:
                await wait_until(lambda: "is connected already" in second.dialer.state)
                node = server.plane.fleet.node("n1")
                assert node is not None
                assert node.health[0].startswith("two machines use this id: 127.0.0.1:")
                assert second.welcomes == []
                assert first.dialer.opened == 1
            finally:
                await second.stop()


async def test_agents_are_told_goodbye_and_when_to_return(serving: Start, tmp_path: Path) -> None:
    async with serving() as (server, ready), agent_of(server, ready, tmp_path) as agent:
        await wait_until(lambda: liveness(server) == READY)
        await server.stop("maintenance")
        goodbyes = [one.goodbye for one in agent.controls if one.goodbye is not None]
        assert [one.reason for one in goodbyes] == ["maintenance"]
        assert goodbyes[0].reconnect_after is not None
