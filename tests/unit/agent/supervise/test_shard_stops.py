"""A shard that is stopped, and what of it stays and is told afterwards."""

import signal
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound
from tests.fakes.clock import settle
from tests.fakes.node import KEY, SHARD_DIR, STATE, FakeNode, shard_spec


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


async def test_term_is_sent_once_then_the_group_is_killed(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.started[0].takes_term = False
        await supervisor.stop("tiny-abc123", 0, "drained")
        await supervisor.stop("tiny-abc123", 0, "drained")
        await node.clock.advance(10)
        assert node.states()[-1] == "stopping"
        assert node.started[0].signals == [signal.SIGTERM]
        status = await node.run_until("stopped")
    assert node.started[0].signals == [signal.SIGTERM, signal.SIGKILL]
    assert status.reason == "drained"


async def test_a_shard_is_stopped_only_when_its_whole_group_is_gone(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        engine = node.started[0]
        worker = node.processes.add(["worker"], engine.environ, group=engine.pid)
        worker.takes_term = worker.takes_kill = False
        await supervisor.stop("tiny-abc123", 0, None)
        await node.clock.advance(60)
        assert not engine.alive
        assert node.states()[-1] == "stopping"
        worker.end(0)
        await node.run_until("stopped")


async def test_a_child_that_left_the_group_is_ended_too(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        stray = node.processes.add(["worker"], node.started[0].environ)
        await supervisor.stop("tiny-abc123", 0, None)
        await node.run_until("stopped")
    assert stray.signals == [signal.SIGKILL]


async def test_a_stop_that_can_not_signal_is_told_and_holds_its_devices(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.started[0].may_signal = False
        await supervisor.stop("tiny-abc123", 0, None)
        await node.clock.advance(1)
        (held,) = supervisor.statuses()
        assert (held.state, held.cause) == ("stopping", "not_stopped")
        assert "could not be signalled" in (held.reason or "")
        await node.clock.advance(300)
        assert [s.state for s in supervisor.statuses()] == ["stopping"]
        node.started[0].may_signal = True
        await node.run_until("stopped")
        assert supervisor.statuses() == ()


async def test_a_process_that_survives_sigkill_is_told(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.started[0].takes_term = node.started[0].takes_kill = False
        await supervisor.stop("tiny-abc123", 0, None)
        await node.clock.advance(40)
        (held,) = supervisor.statuses()
        assert (held.state, held.cause) == ("stopping", "not_stopped")
        assert "still there" in (held.reason or "")


async def test_a_pid_that_another_process_got_is_not_signalled(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        engine = node.started[0]
        engine.end(0)
        stranger = node.processes.add(["sshd"], {}, pid=engine.pid)
        await settle()
    assert node.states()[-1] == "failed"
    assert stranger.signals == []


async def test_a_stop_during_the_download_cancels_it(node: FakeNode):
    node.weights.come.clear()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await settle()
        await supervisor.stop("tiny-abc123", 0, "not wanted")
        await settle()
    assert node.states() == ["fetching", "stopping", "stopped"]
    assert (node.weights.cancelled, node.started) == (1, [])


async def test_a_stop_while_loading_ends_the_engine(node: FakeNode):
    node.ready = False
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("starting")
        await supervisor.stop("tiny-abc123", 0, None)
        await node.run_until("stopped")
    assert node.started[0].signals == [signal.SIGTERM]


async def test_a_shard_that_is_not_there_can_not_be_stopped(node: FakeNode):
    async with node.agent() as supervisor:
        with pytest.raises(NotFound, match="nope/0: no such shard"):
            await supervisor.stop("nope", 0, None)


async def test_a_failure_is_told_again_for_a_while_and_its_log_stays(node: FakeNode):
    node.dies_with = 1
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("failed")
        (status,) = supervisor.statuses()
        assert (status.state, status.spec) == ("failed", shard_spec())
        await node.clock.advance(601)
        assert supervisor.statuses() == ()
        assert any("listening" in line for line in supervisor.log("tiny-abc123/0", 100))
    assert SHARD_DIR / "key" not in node.files.content


async def test_of_a_stopped_shard_nothing_stays_on_disk(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        await supervisor.stop("tiny-abc123", 0, None)
        await node.run_until("stopped")
    assert node.files.content == {}


async def test_only_the_latest_failures_are_kept(node: FakeNode):
    node.dies_with = 1
    async with node.agent() as supervisor:
        for number in range(30):
            await supervisor.start(shard_spec(f"r{number}-abc123"), KEY)
            await node.run_until("failed", replica=f"r{number}-")
        assert len(supervisor.sources()) == 20
    assert len(node.files.names(STATE / "shards")) == 20


async def test_logs_are_read_and_followed_without_secrets(node: FakeNode):
    got: list[str] = []
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        assert supervisor.sources() == ("tiny-abc123/0",)
        end = supervisor.follow_log("tiny-abc123/0", got.append)
        node.files.append(SHARD_DIR / "engine.log", f"one\nkey is {KEY}\x1b[31m!\n".encode())
        await node.clock.advance(1)
        end()
        node.files.append(SHARD_DIR / "engine.log", b"two\n")
        await node.clock.advance(1)
        assert got == ["one", "key is ***!"]
        assert supervisor.log("tiny-abc123/0", 2) == ("key is ***!", "two")
        assert not any("api_keys: ****" in line for line in supervisor.log("tiny-abc123/0", 500))
        with pytest.raises(NotFound, match="no such shard"):
            supervisor.log("other/0", 10)
        with pytest.raises(NotFound, match="is no shard"):
            supervisor.log("../etc/passwd", 10)


async def test_a_full_disk_stops_a_start_in_words_and_nothing_that_runs(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.files.full = True
        await supervisor.start(shard_spec("other-abc123"), KEY)
        status = await node.run_until("failed", replica="other")
        assert "No space left" in (status.reason or "")
        assert [s.state for s in supervisor.statuses() if s.replica.startswith("tiny")] == ["ready"]
        await supervisor.stop("tiny-abc123", 0, None)
        await node.run_until("stopped")


async def test_a_program_that_vanished_is_no_engine(node: FakeNode):
    from llmgw_agent.engines.program import Program

    node.programs.answer = Program(path=Path("/missing"))
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert (status.cause, status.reason) == ("no_engine", "/missing: no such program")


async def test_a_fault_of_the_agents_fails_one_shard_alone(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.facts = None  # type: ignore[assignment]
        await supervisor.start(shard_spec("other-abc123"), KEY)
        status = await node.run_until("failed", replica="other")
        assert "a fault of the agent's" in (status.reason or "")
        assert node.started[0].alive


async def test_leaving_the_agent_ends_no_engine(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    assert node.started[0].alive
    assert node.started[0].signals == []
    assert node.states()[-1] == "ready"
