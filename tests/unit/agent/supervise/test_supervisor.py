"""A shard from its start until it is ready, on a virtual clock."""

import signal

import pytest

from llmgw.base.errors import NotFound, Refused, Unreachable, Unreadable
from llmgw.base.world import Done, HttpAnswer
from llmgw.model.device import Device
from llmgw.model.shard import Progress
from llmgw_agent.engines.adapter import NodeFacts
from tests.fakes.clock import settle
from tests.fakes.node import (
    FIXTURES,
    KEY,
    SHARD_DIR,
    STATE,
    VULKAN_LOG,
    FakeNode,
    port_of,
    shard_spec,
)


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


async def test_each_transition_is_told_once_and_the_first_carries_the_spec(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        await supervisor.stop("tiny-abc123", 0, "not wanted")
        await node.run_until("stopped")
    assert node.states() == ["fetching", "starting", "ready", "stopping", "stopped"]
    assert node.told[0].spec == shard_spec()
    assert all(status.spec is None for status in node.told[1:])
    moves = [(s.state, s.since) for s in node.told if s.progress is None]
    assert len(moves) == len(set(moves)) == 5


async def test_a_ready_shard_tells_where_it_is_and_what_it_computes_on(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("ready")
    (process,) = node.started
    assert (status.pid, status.port) == (process.pid, port_of(process))
    assert (status.address, status.keyed, status.served_name) == ("127.0.0.1", True, "tiny")
    assert status.compute is not None
    assert (status.compute.back_end, status.compute.layers_offloaded) == ("CPU", 0)


async def test_an_engines_environment_is_what_is_listed_and_nothing_else(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    assert node.started[0].environ == {
        "PATH": "/bin",
        "HOME": "/root",
        "LANG": "C",
        "LD_LIBRARY_PATH": "/engines/lib",
        "CUDA_VISIBLE_DEVICES": "",
        "GGML_VK_VISIBLE_DEVICES": "",
        "LLAMA_API_KEY": KEY,
        "LLMGW_SHARD": "c/n1/tiny-abc123/0",
        "LLMGW_STATE": str(STATE),
    }


async def test_the_key_is_kept_in_a_private_file_of_its_own(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    assert node.files.content[SHARD_DIR / "key"] == KEY.encode()
    assert node.files.modes[SHARD_DIR / "key"] == 0o600
    assert KEY.encode() not in node.files.content[SHARD_DIR / "shard.json"]


async def test_repeating_a_start_changes_nothing(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        await supervisor.start(shard_spec(), KEY)
        await settle()
        assert len(node.started) == 1
        assert [s.state for s in supervisor.statuses()] == ["ready"]


async def test_an_id_that_could_leave_the_directory_is_refused(node: FakeNode):
    async with node.agent() as supervisor:
        for replica in ("../../etc", "a/b", "", ".", "A", "x" * 200):
            with pytest.raises(Refused, match="not a shard's id"):
                await supervisor.start(shard_spec(replica), KEY)
    assert node.told == []


async def test_every_problem_is_told_before_anything_is_launched(node: FakeNode):
    node.facts = NodeFacts(devices=(Device(uuid="GPU-a"),), cpus=2, memory_bytes=8_000_000_000)
    wrong = shard_spec(
        devices=("GPU-x", "GPU-x"),
        cpu_cores=64,
        memory_bytes=24_000_000_000,
        context=0,
        arguments=("--port", "80"),
    )
    async with node.agent() as supervisor:
        await supervisor.start(wrong, KEY)
        status = await node.run_until("failed")
    assert status.cause == "invalid"
    for words in ("GPU-x is not on this node", "named twice", "2 cores, needs 64"):
        assert words in (status.reason or "")
    assert "8.0 GB of memory, needs 24 GB" in (status.reason or "")
    assert "arguments[0]: --port" in (status.reason or "")
    assert "context: 0 is less than 1" in (status.reason or "")
    assert node.started == []


async def test_a_device_that_is_not_well_is_not_used(node: FakeNode):
    node.facts = NodeFacts(devices=(Device(uuid="GPU-a", unhealthy=("fell off the bus",)),))
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(devices=("GPU-a",)), KEY)
        status = await node.run_until("failed")
    assert "GPU-a: fell off the bus" in (status.reason or "")


async def test_an_option_that_the_build_does_not_know_never_reaches_it(node: FakeNode):
    text = (FIXTURES / "llama-server" / "help.txt").read_text()
    node.processes.on_run = lambda argv: Done(0, text, "")
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(arguments=("--bogus-flag",)), KEY)
        status = await node.run_until("failed")
        await supervisor.start(shard_spec("other-abc123"), KEY)
        await node.run_until("ready", replica="other")
    assert "does not know --bogus-flag" in (status.reason or "")
    assert node.processes.ran == [("/engines/llama-server", "--help")]


async def test_an_engine_that_is_not_there_is_told_in_the_nodes_own_words(node: FakeNode):
    node.programs.answer = Refused("llama.cpp 1: installing: downloading (16 MB)")
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(arguments=("--port",)), KEY)
        status = await node.run_until("failed")
    assert status.cause == "no_engine"
    assert "installing: downloading (16 MB)" in (status.reason or "")
    assert "arguments[0]" in (status.reason or "")


async def test_an_unknown_engine_is_told_by_name(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(engine="tensorflow"), KEY)
        status = await node.run_until("failed")
    assert (status.cause, "'tensorflow'" in (status.reason or "")) == ("no_engine", True)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (Unreachable("index: no answer"), "no_weights"),
        (Unreadable("tiny.gguf: sha256 differs"), "bad_file"),
        (NotFound("no such file"), "no_weights"),
    ],
)
async def test_weights_that_can_not_be_had_fail_the_shard(
    node: FakeNode, error: Exception, cause: str
):
    node.weights.answer = error  # type: ignore[assignment]
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert (status.cause, status.reason) == (cause, str(error))


async def test_progress_is_told_at_most_each_second_and_is_no_transition(node: FakeNode):
    node.weights.come.clear()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await settle()
        began = node.told[0].since
        node.told.clear()
        assert node.weights.tell is not None
        for done in range(50):
            node.weights.tell(Progress(words="fetching", done_bytes=done, total_bytes=100))
            await node.clock.advance(0.1)
        assert 4 <= len(node.told) <= 7
        assert {(s.state, s.since) for s in node.told} == {("fetching", began)}
        assert [s.progress.done_bytes for s in supervisor.statuses() if s.progress] == [49]


async def test_loading_is_told_as_progress(node: FakeNode):
    node.ready = False
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("starting")
        await node.clock.advance(2)
        assert node.told[-1].progress == Progress(words="Loading model")
        node.ready = True
        assert (await node.run_until("ready")).progress is None


async def test_a_profiles_limit_holds_for_downloads_too_and_progress_does_not_move_it(
    node: FakeNode,
):
    node.weights.come.clear()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(ready_timeout=30), KEY)
        for done in range(29):
            await node.clock.advance(1)
            assert node.weights.tell is not None
            node.weights.tell(Progress(words="fetching", done_bytes=done))
        assert node.states() == ["fetching"]
        await node.clock.advance(2)
    assert node.states() == ["fetching", "failed"]
    assert (node.told[-1].cause, node.weights.cancelled) == ("not_ready", 1)
    assert "not ready within 30 s: fetching" in (node.told[-1].reason or "")


async def test_an_engine_that_never_gets_ready_is_stopped_and_failed(node: FakeNode):
    node.ready = False
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(ready_timeout=20), KEY)
        status = await node.run_until("failed")
    assert node.states() == ["fetching", "starting", "stopping", "failed"]
    assert status.cause == "not_ready"
    assert status.reason == "not ready within 20 s: Loading model"
    assert node.started[0].signals == [signal.SIGTERM]
    assert not node.processes.live()


async def test_without_a_limit_in_the_profile_the_engines_own_counts_from_the_launch(
    node: FakeNode,
):
    node.ready = False
    node.weights.come.clear()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.clock.advance(1000)
        node.weights.come.set()
        await node.clock.advance(880)
        assert node.states() == ["fetching", "starting"]
        await node.clock.advance(30)
    assert node.states()[-1] == "failed"


async def test_an_engine_that_ends_while_it_starts_fails_with_cause_and_last_lines(node: FakeNode):
    node.log = (FIXTURES / "llama-server" / "fail-missing.log").read_bytes()
    node.dies_with = 1
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert node.states() == ["fetching", "starting", "failed"]
    assert status.cause == "bad_file"
    assert "/nonexistent.gguf: No such file or directory" in (status.reason or "")
    assert "exited with code 1" in (status.reason or "")
    assert status.last_lines is not None
    assert status.last_lines[-1].endswith("exiting due to model loading error")
    assert (status.pid, len(status.last_lines)) == (None, 18)


async def test_an_engine_that_does_not_ask_for_its_key_is_marked(node: FakeNode):
    node.http.answering = lambda url, headers: HttpAnswer(status=200, body=b"{}")
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        assert (await node.run_until("ready")).keyed is False


async def test_an_engine_without_a_key_is_started_unkeyed(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), None)
        assert (await node.run_until("ready")).keyed is False
    assert "LLAMA_API_KEY" not in node.started[0].environ


async def test_cards_that_the_engine_does_not_use_fail_the_shard(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(devices=("GPU-a",)), KEY)
        status = await node.run_until("failed")
    assert node.states() == ["fetching", "starting", "stopping", "failed"]
    assert (status.cause, "no model buffer on a GPU" in (status.reason or "")) == ("no_gpu", True)
    assert not node.processes.live()


async def test_cards_that_the_engine_uses_are_fine(node: FakeNode):
    node.log = VULKAN_LOG
    node.facts = NodeFacts(devices=(Device(uuid="GPU-a", number=2),))
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(devices=("GPU-a",)), KEY)
        status = await node.run_until("ready")
    assert status.compute is not None
    assert status.compute.back_end == "Vulkan"
    assert node.started[0].environ["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert node.started[0].environ["GGML_VK_VISIBLE_DEVICES"] == "2"
