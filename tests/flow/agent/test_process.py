"""`llmgw agent` as a process: joining, ending, and one line for what keeps it from it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from llmgw.base.clock import SystemClock
from llmgw.link.enrol import own_certificate
from llmgw.link.tls import files_in
from tests.flow.agent.control import WatchedPlace, watched
from tests.only import only
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
ENVIRON = {
    **{name: value for name, value in os.environ.items() if not name.startswith("LLMGW_")},
    "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in (".", "agent", "tui", "proto")),
}


@dataclass
class Agent:
    """One node's agent, started again and again on the same state."""

    place: WatchedPlace
    directory: Path
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.directory / "state"

    def config(self, **changes: object) -> Path:
        fields: dict[str, object] = {
            "state_dir": str(self.state),
            "node": "gpu-01",
            "control_planes": [self.place.address],
            "address": "127.0.0.1",
            "weights_dir": str(self.directory / "weights"),
            "engines_dir": str(self.directory / "engines"),
            "measure_bandwidth": False,
            **changes,
        }
        path = self.directory / "agent.yaml"
        path.write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
        return path

    async def start(
        self, *more: str, token: str | None = None, **changes: object
    ) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-m", "llmgw", "agent", "--config", str(self.config(**changes))]
        process = await asyncio.create_subprocess_exec(
            *argv,
            *more,
            *(("--join", "-") if token else ()),
            env=ENVIRON,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.directory,
        )
        self.processes.append(process)
        assert process.stdin is not None
        process.stdin.write(f"{token or ''}\n".encode())
        process.stdin.close()
        return process

    async def fails(self, *more: str, token: str | None = None, **changes: object) -> "Ended":
        return await end_of(await self.start(*more, token=token, **changes))

    def registered(self, count: int = 1) -> bool:
        return len(self.place.control.registers()) >= count


@dataclass
class Ended:
    """How a process ended, and its words for people: log lines are JSON and apart."""

    rc: int
    said: list[str]
    logged: list[str]


async def end_of(process: asyncio.subprocess.Process) -> Ended:
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    lines = (out + err).decode().splitlines()
    logged = [line for line in lines if line.startswith("{")]
    assert process.returncode is not None
    return Ended(process.returncode, [line for line in lines if line not in logged], logged)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    async with watched(tmp_path / "control") as place:
        made = Agent(place, tmp_path)
        yield made
        for process in made.processes:
            if process.returncode is None:
                process.kill()
                await process.communicate()


async def test_a_machine_joins_with_a_token_and_ends_with_its_stream_closed(agent: Agent):
    process = await agent.start(token=agent.place.token())
    await wait_until(agent.registered, 30, what="the node registers")
    register = only(agent.place.control.registers())
    assert (register.node, register.address) == ("gpu-01", "127.0.0.1")
    host = register.inventory and register.inventory.host
    assert host
    assert host.cpus == os.cpu_count()
    await wait_until(agent.place.control.heartbeats, 20)
    stream = agent.place.control.stream
    process.send_signal(signal.SIGTERM)
    ended = await end_of(process)
    assert (ended.rc, ended.said) == (0, [])
    await wait_until(lambda: stream.ended)
    assert "engines go on" in ended.logged[-1]
    # It needs no token the next time; one that is given all the same is not used.
    again = await agent.start(token=agent.place.token())
    await wait_until(lambda: agent.registered(2), 30, what="the node registers again")
    again.send_signal(signal.SIGINT)
    assert (await end_of(again)).rc == 0
    assert len(agent.place.control.asked) == 1
    first, second = agent.place.control.registers()
    assert first.boot != second.boot


async def test_a_second_agent_on_the_same_state_is_refused_in_words(agent: Agent):
    first = await agent.start(token=agent.place.token())
    await wait_until(agent.registered, 30)
    ended = await agent.fails()
    assert ended.rc == 4
    assert f"another agent runs on {agent.state} (pid {first.pid})" in ended.said[0]
    first.send_signal(signal.SIGTERM)
    assert (await end_of(first)).rc == 0


async def test_an_agent_that_was_killed_leaves_nothing_in_the_way(agent: Agent):
    first = await agent.start(token=agent.place.token())
    await wait_until(agent.registered, 30)
    first.kill()
    await first.communicate()
    second = await agent.start()
    await wait_until(lambda: agent.registered(2), 30)
    second.send_signal(signal.SIGTERM)
    assert (await end_of(second)).rc == 0


def with_certificate(agent: Agent, *, subject: str = "gpu-01", lifetime: float = 3600, ago=0.0):
    agent.state.mkdir(mode=0o700)
    agent.place.authority.issue(
        agent.state,
        role="node",
        subject=subject,
        addresses=(),
        now=SystemClock().now() - ago,
        lifetime=lifetime,
    )
    own_certificate(files_in(agent.state))


async def test_a_certificate_that_ended_is_one_line_with_what_to_do(agent: Agent):
    with_certificate(agent, lifetime=60, ago=3660)
    ended = await agent.fails()
    assert ended.rc == 4
    assert "the certificate of node gpu-01 ended 1h00m ago" in ended.said[0]
    assert any("llmgw ctl node token gpu-01" in line for line in ended.said)
    assert ended.logged == []


async def test_a_certificate_that_ended_is_replaced_with_a_token(agent: Agent):
    with_certificate(agent, lifetime=60, ago=3660)
    process = await agent.start(token=agent.place.token())
    await wait_until(agent.registered, 30)
    process.send_signal(signal.SIGTERM)
    assert (await end_of(process)).rc == 0


@pytest.mark.parametrize("left", [b"", b"-----BEGIN CERTIFICATE-----\nMII", b"\xff\x00\xfe"])
async def test_a_damaged_certificate_is_one_line_and_is_replaced_with_a_token(
    agent: Agent, left: bytes
):
    with_certificate(agent)
    files_in(agent.state).certificate.write_bytes(left)
    ended = await agent.fails()
    assert ended.rc == 1
    assert "not a certificate" in ended.said[0]
    assert any("--join" in line for line in ended.said[1:])
    assert ended.logged == []
    process = await agent.start(token=agent.place.token())
    await wait_until(agent.registered, 30)
    process.send_signal(signal.SIGTERM)
    assert (await end_of(process)).rc == 0


async def test_a_certificate_of_another_node_is_not_used(agent: Agent):
    with_certificate(agent, subject="gpu-02")
    ended = await agent.fails()
    assert ended.rc == 2
    assert "is for node gpu-02, not for gpu-01" in ended.said[0]


async def test_without_certificate_and_token_it_says_how_to_join(agent: Agent):
    ended = await agent.fails()
    assert ended.rc == 3
    assert any("--join TOKEN" in line for line in ended.said)


async def test_a_token_that_is_none_is_not_quoted(agent: Agent):
    ended = await agent.fails(token="llmgw1.secretsecret")
    assert ended.rc == 1
    assert "not a join token" in ended.said[0]
    assert not any("secretsecret" in line for line in ended.said + ended.logged)


async def test_what_can_not_work_is_refused_before_anything_starts(agent: Agent):
    ended = await agent.fails(control_planes=["nowhere"])
    assert ended.rc == 2
    assert "'nowhere' is not an address" in ended.said[0]
    assert not agent.state.exists()


async def test_an_unknown_field_is_named_with_the_nearest(agent: Agent):
    ended = await agent.fails(weight_dir="/x")
    assert ended.rc == 1
    assert "weight_dir" in " ".join(ended.said)
    assert "weights_dir" in " ".join(ended.said)


async def test_a_state_directory_that_others_can_enter_is_refused(agent: Agent):
    agent.state.mkdir(mode=0o755)
    agent.state.chmod(0o755)
    ended = await agent.fails()
    assert ended.rc == 4
    assert any("chmod 700" in line for line in ended.said)


async def test_a_control_plane_that_is_away_is_waited_for(agent: Agent):
    with_certificate(agent)
    port = agent.place.port
    await agent.place.server.stop("away")
    process = await agent.start()
    await wait_until((agent.state / "agent.lock").exists, 20)
    agent.place.server = agent.place.new_server()
    await agent.place.start(port)
    await wait_until(agent.registered, 40, what="the node registers")
    process.send_signal(signal.SIGTERM)
    assert (await end_of(process)).rc == 0
