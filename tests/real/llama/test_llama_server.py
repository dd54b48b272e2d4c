"""A real llama-server under a real supervisor, as the program and as the launched library."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from llmgw.model.catalog import PathSource
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw_agent.supervise.book import Kept
from tests.agents import KEY, RealNode, ask
from tests.real.conftest import Llama
from tests.waiting import wait_until

pytestmark = pytest.mark.real


@pytest.fixture(params=["llama", "xllamacpp"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RealNode]:
    """Return a node that has the program, and one that has the library with our launcher."""
    found: Llama = request.getfixturevalue(request.param)
    real = RealNode(tmp_path / "state", found.program, found.model)
    try:
        yield real
    finally:
        await real.end_all()


def spec(**changes: object) -> ShardSpec:
    fields: dict[str, object] = {
        "replica": "tiny-abc123",
        "model": "test/tiny:random",
        "profile": "default",
        "fingerprint": "f",
        "engine": "llamacpp",
        "source": PathSource(path="/models/tiny.gguf"),
        "context": 512,
        "concurrency": 2,
        "cpu_cores": 1,
    }
    return ShardSpec(**{**fields, **changes})  # type: ignore[arg-type]


async def complete(status: ShardStatus, **more: object) -> dict[str, object]:
    body = {"prompt": "The capital of France is", "max_tokens": 8, "ignore_eos": True, **more}
    answer = await ask(status, "/v1/completions", body)
    assert answer.status == 200, answer.body
    read: dict[str, object] = json.loads(answer.body)
    return read


def record(node: RealNode) -> Path:
    return node.state / "shards" / "tiny-abc123.0" / "shard.json"


async def test_it_serves_eight_tokens_to_who_has_the_key_and_nothing_to_others(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("ready")
        for path in ("/v1/completions", "/v1/chat/completions", "/tokenize"):
            assert (await ask(status, path, {}, key=None)).status == 401
            assert (await ask(status, path, {}, key="wrong")).status == 401
        assert (await ask(status, "/metrics", key=None)).status == 401
        read = await complete(status)
        assert msgspec.convert(read["usage"], dict)["completion_tokens"] == 8
        assert (status.keyed, status.served_name) == (True, "test/tiny:random")
        assert read["model"] == "test/tiny:random"
        metrics = (await ask(status, "/metrics")).body.decode()
        assert "llamacpp:tokens_predicted_total 8" in metrics


async def test_a_replica_on_the_cpu_says_so_with_its_buffers(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("ready")
    assert status.compute is not None
    assert status.compute.back_end == "CPU"
    # A build without any GPU support does not speak of layers at all.
    assert not status.compute.layers_offloaded
    (device,) = status.compute.devices
    assert device.back_end == "CPU"
    assert device.model_bytes is not None
    assert device.model_bytes > 400_000
    assert device.description


async def test_its_context_is_each_requests_own(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("ready")
        slots = json.loads((await ask(status, "/slots")).body)
        assert [slot["n_ctx"] for slot in slots] == [512, 512]


async def test_the_key_is_neither_in_its_command_line_nor_in_its_log(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("ready")
        await complete(status)
        assert status.pid is not None
        seen = await node.processes.inspect(status.pid)
        assert seen is not None
        assert KEY not in " ".join(seen.argv)
        log = record(node).parent / "engine.log"
        await wait_until(lambda: "n_tokens = " in log.read_text())
        assert KEY not in log.read_text()
        assert not any(KEY[-4:] in line for line in agent.log("tiny-abc123/0", 500))


async def test_cards_that_are_not_there_stop_and_fail_it(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(devices=("GPU-00000000-0000-0000-0000-000000000000",)), KEY)
        status = await node.until("failed")
    assert (status.cause, node.ours()) == ("no_gpu", ())
    assert "no model buffer on a GPU" in (status.reason or "")


async def test_it_is_asked_to_end_once_and_ends_in_order(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        await node.until("ready")
        await agent.stop("tiny-abc123", 0, "done")
        await agent.stop("tiny-abc123", 0, "done")
        stopped = await node.until("stopped")
    assert (stopped.reason, node.ours()) == ("done", ())
    # A second SIGTERM would have made it abort.
    assert (await node.processes.children[0].wait()) == 0


async def test_a_model_that_is_no_model_is_told(node: RealNode, tmp_path: Path):
    node.weights = tmp_path / "bad.gguf"
    node.weights.write_bytes(b"GGML" + bytes(100))
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("failed")
    assert status.cause == "bad_file"
    assert "begins with 'GGML'" in (status.reason or "")


async def test_a_model_that_is_not_there_is_told(node: RealNode, tmp_path: Path):
    node.weights = tmp_path / "gone.gguf"
    async with node.agent() as agent:
        await agent.start(spec(), KEY)
        status = await node.until("failed")
    assert status.cause == "bad_file"
    assert "gone.gguf" in (status.reason or "")


async def test_an_option_that_this_build_does_not_know_is_refused_before_the_start(node: RealNode):
    async with node.agent() as agent:
        await agent.start(spec(arguments=("--made-up", "1")), KEY)
        status = await node.until("failed")
    assert status.cause == "invalid"
    assert "does not know --made-up" in (status.reason or "")
    assert node.processes.children == []


async def test_a_killed_agents_engine_is_adopted_and_goes_on_answering(node: RealNode):
    async with node.agent_process(spec()) as former:
        before = await former.until("ready")
        assert await former.end(signal.SIGKILL) == -signal.SIGKILL
    await complete(before)
    async with node.agent() as agent:
        (status,) = agent.statuses()
        assert (status.pid, status.state, status.adopted) == (before.pid, "ready", True)
        assert status.compute == before.compute
        assert status.spec == spec()
        await complete(status)
        await agent.stop("tiny-abc123", 0, "done")
        await node.until("stopped")
    assert node.ours() == ()


async def test_a_pid_that_is_somebody_elses_is_neither_adopted_nor_killed(
    node: RealNode, tmp_path: Path
):
    async with node.agent_process(spec()) as former:
        await former.until("ready")
        await former.end(signal.SIGKILL)
    kept = msgspec.json.decode(record(node).read_bytes(), type=Kept)
    assert kept.process is not None
    os.kill(kept.process.pid, signal.SIGKILL)
    await wait_until(lambda: not node.ours())
    stranger = await node.processes.start(["/bin/sleep", "100"], env={}, log=tmp_path / "log")
    reused = msgspec.structs.replace(kept.process, pid=stranger.pid)
    record(node).write_bytes(msgspec.json.encode(msgspec.structs.replace(kept, process=reused)))
    async with node.agent() as agent:
        assert [s.state for s in agent.statuses()] == ["failed"]
        assert node.processes.look(stranger.pid) is not None
    node.processes.signal_group(stranger.pid, signal.SIGKILL)


async def test_an_engine_without_a_record_is_killed_and_another_agents_lives(
    node: RealNode, tmp_path: Path
):
    other = RealNode(tmp_path / "other", node.program, node.weights)
    try:
        async with node.agent_process(spec()) as former:
            await former.until("ready")
        async with other.agent_process(spec()) as neighbour:
            lives = await neighbour.until("ready")
        record(node).unlink()
        async with node.agent() as agent:
            await node.until("stopped")
            assert agent.statuses() == ()
        assert node.ours() == ()
        assert other.ours() == (lives.pid,)
        await complete(lives)
    finally:
        await other.end_all()


async def test_the_demos_model_completes_text(node: RealNode, gemma: Path):
    node.weights = gemma
    async with node.agent() as agent:
        await agent.start(spec(cpu_cores=2), KEY)
        status = await node.until("ready", timeout=120)
        read = await complete(status, temperature=0)
        assert msgspec.convert(read["usage"], dict)["completion_tokens"] == 8
