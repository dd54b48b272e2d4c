"""Real processes of the simulated engine under a real supervisor."""

import json
import os
import signal
import socket
from pathlib import Path

import msgspec
import pytest

from llmgw.model.shard import ShardSpec
from llmgw_agent.supervise.book import Kept
from llmgw_agent.supervise.ports import choose_port, is_free
from tests.agents import KEY, RealNode, ask
from tests.supervising import PORTS
from tests.waiting import wait_until


def spec(*arguments: str, replica: str = "demo-abc123", **changes: object) -> ShardSpec:
    fields: dict[str, object] = {
        "replica": replica,
        "model": "demo",
        "profile": "default",
        "fingerprint": "f",
        "engine": "simulated",
        "arguments": arguments,
    }
    return ShardSpec(**{**fields, **changes})  # type: ignore[arg-type]


def record(node: RealNode) -> Path:
    return node.state / "shards" / "demo-abc123.0" / "shard.json"


def sent_terms(node: RealNode) -> int:
    log = (record(node).parent / "engine.log").read_text()
    return log.count("received SIGTERM")


async def test_an_engine_serves_whoever_has_its_key_and_nobody_else(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("ready")
        body = {"prompt": "Hello", "max_tokens": 8}
        assert (await ask(status, "/v1/completions", body, key=None)).status == 401
        assert (await ask(status, "/v1/completions", body, key="wrong")).status == 401
        answer = await ask(status, "/v1/completions", body)
        read = json.loads(answer.body)
        assert read["usage"]["completion_tokens"] == 8
        assert read["model"] == status.served_name == "simulated/demo"
        assert status.keyed is True
        await agent.stop("demo-abc123", 0, "done")
        await node.until("stopped")
    assert node.ours() == ()


async def test_an_engines_environment_is_what_was_meant(node: RealNode):
    os.environ["LLMGW_TEST_SECRET"] = "of the agent alone"
    try:
        async with node.agent() as agent:
            await agent.start(spec(), KEY)
            status = await node.until("ready")
            assert status.pid is not None
            seen = await node.processes.inspect(status.pid)
    finally:
        del os.environ["LLMGW_TEST_SECRET"]
    assert seen is not None
    assert seen.environ["LLMGW_SHARD"] == "c/n1/demo-abc123/0"
    assert seen.environ["LLMGW_ENGINE_KEY"] == KEY
    assert seen.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert set(seen.environ) <= {
        "PATH",
        "HOME",
        "LANG",
        "PYTHONPATH",
        "CUDA_VISIBLE_DEVICES",
        "LLMGW_ENGINE_KEY",
        "LLMGW_SHARD",
        "LLMGW_STATE",
    }
    assert not any(KEY in part for part in seen.argv)
    assert seen.group == seen.pid


async def test_what_is_kept_is_for_this_user_alone(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        await node.until("ready")
        directory = record(node).parent
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in directory.iterdir()} == {
            "shard.json": "0o600",
            "key": "0o600",
            "engine.log": "0o600",
        }
        assert directory.stat().st_mode & 0o777 == 0o700
        assert KEY not in record(node).read_text()


async def test_the_whole_group_is_asked_once(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        await node.until("ready")
        follow: list[str] = []
        agent.follow_log("demo-abc123/0", follow.append)
        await agent.stop("demo-abc123", 0, None)
        await agent.stop("demo-abc123", 0, None)
        await node.until("stopped")
    assert follow.count("simulated: received SIGTERM") == 1
    assert "simulated: ends as it was asked to" in follow


async def test_an_engine_that_does_not_end_is_killed(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec("--fault", "ignore-term"), KEY)
        await node.until("ready")
        await agent.stop("demo-abc123", 0, None)
        await wait_until(lambda: sent_terms(node) == 1)
        assert node.ours()
        await node.until("stopped")
    assert node.ours() == ()


@pytest.mark.parametrize(
    ("fault", "devices", "cause"),
    [
        ("out-of-memory", (), "out_of_memory"),
        ("bad-file", (), "bad_file"),
        ("no-gpu", ("GPU-a",), "no_gpu"),
    ],
)
async def test_a_failed_start_has_its_cause(
    node: RealNode, fault: str, devices: tuple[str, ...], cause: str
):
    async with node.agent() as agent:
        await agent.start(spec("--fault", fault, devices=devices), KEY)
        status = await node.until("failed")
    assert (status.cause, node.ours()) == (cause, ())


async def test_an_engine_that_crashes_while_it_serves_is_failed_at_once(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec("--fault", "crash-after=5", "--tokens-per-second", "200"), KEY)
        ready = await node.until("ready")
        with pytest.raises(Exception, match=str(ready.port)):
            await ask(ready, "/v1/completions", {"prompt": "x", "max_tokens": 10})
        status = await node.until("failed", timeout=5)
    assert status.cause == "exited"
    assert "SIGABRT" in (status.reason or "")
    assert status.last_lines is not None
    assert status.last_lines[-1] == "simulated: crashes, as it was told"


async def test_a_taken_port_is_not_used(node: RealNode):
    first = choose_port(PORTS, "demo-abc123/0", (), lambda port: is_free("127.0.0.1", port))
    assert first is not None
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", first))
        holder.listen()
        async with node.agent() as agent:
            await agent.start(spec(), KEY)
            assert (await node.until("ready")).port not in {None, first}


async def test_a_port_taken_between_the_look_and_the_start_is_tried_on_another(
    node: RealNode, monkeypatch: pytest.MonkeyPatch
):
    first = choose_port(PORTS, "demo-abc123/0", (), lambda port: is_free("127.0.0.1", port))
    assert first is not None
    monkeypatch.setattr("llmgw_agent.supervise.supervisor.is_free", lambda host, port: True)
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", first))
        holder.listen()
        async with node.agent() as agent:
            await agent.start(spec(), KEY)
            assert (await node.until("ready")).port == first + 1


async def test_an_agent_that_is_killed_is_followed_by_one_that_adopts(node: RealNode):
    async with node.agent_process(spec()) as former:
        before = await former.until("ready")
        assert await former.end(signal.SIGKILL) == -signal.SIGKILL
    assert (await ask(before, "/v1/completions", {"prompt": "x", "max_tokens": 1})).status == 200
    async with node.agent() as agent:
        (status,) = agent.statuses()
        assert (status.pid, status.state, status.adopted) == (before.pid, "ready", True)
        assert status.compute == before.compute
        assert (status.port, status.keyed) == (before.port, True)
        await agent.stop("demo-abc123", 0, "done")
        await node.until("stopped")
    assert node.ours() == ()


async def test_an_agent_that_ends_in_order_leaves_its_engines_too(node: RealNode):
    async with node.agent_process(spec()) as former:
        before = await former.until("ready")
        assert await former.end(signal.SIGTERM) == 0
    assert before.pid in node.ours()
    async with node.agent() as agent:
        assert [s.pid for s in agent.statuses()] == [before.pid]


async def test_an_adopted_engine_that_is_killed_is_told(node: RealNode):
    async with node.agent_process(spec()) as former:
        before = await former.until("ready")
    async with node.agent():
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)
        assert (await node.until("failed", timeout=5)).cause == "exited"


async def test_a_stop_in_progress_is_gone_on_with_after_a_kill_of_the_agent(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec("--fault", "ignore-term"), KEY)
        await node.until("ready")
        await agent.stop("demo-abc123", 0, "drained")
        await wait_until(lambda: sent_terms(node) == 1)
    node.told.clear()
    async with node.agent() as agent:
        assert [s.state for s in agent.statuses()] == ["stopping"]
        await node.until("stopped")
    assert node.ours() == ()


async def test_a_record_whose_pid_is_somebody_elses_harms_nobody(node: RealNode, tmp_path: Path):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        await node.until("ready")
    kept = msgspec.json.decode(record(node).read_bytes(), type=Kept)
    await node.end_all()
    stranger = await node.processes.start(["/bin/sleep", "60"], env={}, log=tmp_path / "log")
    try:
        assert kept.process is not None
        moved = msgspec.structs.replace(
            kept, process=msgspec.structs.replace(kept.process, pid=stranger.pid)
        )
        record(node).write_bytes(msgspec.json.encode(moved))
        async with node.agent() as agent:
            assert [s.state for s in agent.statuses()] == ["failed"]
        assert node.processes.look(stranger.pid) is not None
    finally:
        node.processes.signal_group(stranger.pid, signal.SIGKILL)
        await stranger.wait()


async def test_an_engine_without_a_record_is_killed_and_another_agents_lives(
    node: RealNode, tmp_path: Path
):
    other = RealNode(tmp_path / "other", node.program, None)
    try:
        async with node.agent() as agent, other.agent() as neighbour:
            await agent.start(spec(), KEY)
            await neighbour.start(spec(), KEY[::-1])
            await node.until("ready")
            lives = await other.until("ready")
        record(node).unlink()
        node.told.clear()
        async with node.agent() as agent:
            await node.until("stopped")
            assert agent.statuses() == ()
        assert node.ours() == ()
        assert other.ours() == (lives.pid,)
    finally:
        await other.end_all()


async def test_two_agents_that_find_the_same_port_free_end_up_on_two(
    node: RealNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("llmgw_agent.supervise.supervisor.is_free", lambda host, port: True)
    other = RealNode(tmp_path / "other", node.program, None)
    try:
        async with node.agent() as agent, other.agent() as neighbour:
            await agent.start(spec(), KEY)
            await neighbour.start(spec(), None)
            one, two = await node.until("ready"), await other.until("ready")
            assert {s.port for s in (one, two)} == {one.port, two.port} != {one.port}
            assert (one.pid in node.ours(), two.pid in other.ours()) == (True, True)
    finally:
        await other.end_all()


async def test_output_goes_on_into_the_file_while_no_agent_watches(node: RealNode):
    async with node.agent_process(spec()) as former:
        before = await former.until("ready")
    assert before.pid is not None
    os.kill(before.pid, signal.SIGINT)
    await wait_until(lambda: not node.ours())
    async with node.agent() as agent:
        (status,) = agent.statuses()
        assert status.state == "failed"
        assert status.last_lines is not None
        assert status.last_lines[-1] == "simulated: ends as it was asked to"
        assert "simulated: ends as it was asked to" in agent.log("demo-abc123/0", 10)
