"""What a restarted agent does with what a former one left."""

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest

from llmgw.base.errors import NotFound
from llmgw_agent.supervise.book import Kept, parse_source
from tests.fakes.clock import settle
from tests.fakes.machine import FakeProcess
from tests.fakes.node import KEY, STATE, VULKAN_LOG, FakeNode, shard_spec

RECORD = STATE / "shards" / "tiny-abc123.0" / "shard.json"
KEY_FILE = STATE / "shards" / "tiny-abc123.0" / "key"
LOG_FILE = STATE / "shards" / "tiny-abc123.0" / "engine.log"


@pytest.fixture
async def left() -> FakeNode:
    """Return a node whose agent has died and left one ready engine."""
    node = FakeNode()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    node.told.clear()
    return node


def kept(node: FakeNode) -> Kept:
    return msgspec.json.decode(node.files.content[RECORD], type=Kept)


def keep(node: FakeNode, record: Kept) -> None:
    node.files.content[RECORD] = msgspec.json.encode(record)


def orphan(
    node: FakeNode, shard: str = "c/n1/lost-abc123/0", state: str = str(STATE)
) -> FakeProcess:
    environ = {"LLMGW_STATE": state, "LLMGW_SHARD": shard, "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    return node.processes.add(["llama-server"], environ)


async def test_an_engine_is_taken_over_with_its_pid_key_and_compute_report(left: FakeNode):
    engine = left.started[0]
    async with left.agent() as supervisor:
        (status,) = supervisor.statuses()
        assert (status.state, status.pid, status.adopted) == ("ready", engine.pid, True)
        assert status.spec == shard_spec()
        assert status.compute is not None
        assert (status.compute.back_end, status.keyed, status.served_name) == ("CPU", True, "tiny")
        await left.clock.advance(60)
        assert supervisor.statuses() == (status,)
    assert (engine.signals, len(left.started)) == ([], 1)


async def test_an_adopted_engine_is_stopped_by_asking_once(left: FakeNode):
    async with left.agent() as supervisor:
        await supervisor.stop("tiny-abc123", 0, "drained")
        await left.run_until("stopped")
    assert left.started[0].signals == [signal.SIGTERM]
    assert left.files.content == {}


async def test_a_stop_that_a_former_agent_began_is_gone_on_with_without_asking_again():
    node = FakeNode()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.started[0].takes_term = False
        await supervisor.stop("tiny-abc123", 0, "drained")
        await node.clock.advance(1)
    assert node.started[0].signals == [signal.SIGTERM]
    node.told.clear()
    async with node.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["stopping"]
        status = await node.run_until("stopped")
    assert node.started[0].signals == [signal.SIGTERM, signal.SIGKILL]
    assert status.reason == "drained"


async def test_an_adopted_engine_that_dies_is_told_as_failed(left: FakeNode):
    async with left.agent():
        left.files.append(LOG_FILE, b"CUDA error: out of memory\n")
        left.started[0].end(1)
        status = await left.run_until("failed", seconds=2)
    assert status.cause == "out_of_memory"
    assert "exit status of pid" in (status.reason or "")


async def test_an_adopted_engine_is_gone_when_its_pid_is_another_process(left: FakeNode):
    engine = left.started[0]
    async with left.agent() as supervisor:
        engine.alive = False
        stranger = left.processes.add(["sshd"], {}, pid=engine.pid)
        await left.run_until("failed")
        assert "ended" in (supervisor.statuses()[0].reason or "")
    assert stranger.signals == []


async def test_what_an_engine_wrote_before_is_read_from_its_file(left: FakeNode):
    left.files.append(LOG_FILE, b"written while no agent watched\n")
    async with left.agent() as supervisor:
        before, note = supervisor.log("tiny-abc123/0", 2)
        assert before == "written while no agent watched"
        assert "adopted by a restarted agent" in note
        left.files.append(LOG_FILE, b"and after\n")
        await left.clock.advance(1)
        assert supervisor.log("tiny-abc123/0", 1) == ("and after",)


async def test_an_engine_that_was_still_loading_becomes_ready_under_the_new_agent():
    node = FakeNode(ready=False, log=VULKAN_LOG)
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(devices=("GPU-a",)), KEY)
        await node.run_until("starting")
        await node.clock.advance(1)
    node.told.clear()
    async with node.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["starting"]
        node.ready = True
        status = await node.run_until("ready")
    assert (status.adopted, status.compute and status.compute.back_end) == (True, "Vulkan")


async def test_the_limit_of_a_start_up_goes_on_over_a_restart():
    node = FakeNode(ready=False)
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(ready_timeout=60), KEY)
        await node.clock.advance(50)
    node.told.clear()
    async with node.agent():
        await node.clock.advance(12)
    assert [s.state for s in node.told if s.progress is None] == ["stopping", "failed"]


async def test_an_engine_that_became_ready_while_no_agent_watched_is_asked_before_it_is_late():
    node = FakeNode(ready=False)
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(ready_timeout=60), KEY)
        await node.clock.advance(20)
    node.told.clear()
    node.ready = True
    await node.clock.advance(100)
    async with node.agent():
        await node.clock.advance(5)
    assert [s.state for s in node.told if s.progress is None] == ["ready"]
    assert node.started[0].signals == []


async def test_a_pid_that_another_process_got_is_neither_adopted_nor_killed(left: FakeNode):
    engine = left.started[0]
    engine.alive = False
    stranger = left.processes.add(["sshd"], {"LLMGW_STATE": "/other"}, pid=engine.pid)
    async with left.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["failed"]
        assert "ended while no agent watched" in (supervisor.statuses()[0].reason or "")
        await left.clock.advance(30)
    assert (stranger.alive, stranger.signals) == (True, [])


async def test_the_same_pid_and_start_time_with_another_command_line_is_not_the_engine(
    left: FakeNode,
):
    engine = left.started[0]
    engine.alive = False
    other = left.processes.add(
        ["sshd"], {}, pid=engine.pid, started=left.processes.table[engine.pid].started
    )
    async with left.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["failed"]
    assert other.signals == []


async def test_an_engine_that_died_meanwhile_is_told_with_its_last_words(left: FakeNode):
    left.started[0].end(1)
    left.files.append(LOG_FILE, b"CUDA error: out of memory\n")
    async with left.agent() as supervisor:
        (status,) = supervisor.statuses()
    assert (status.state, status.cause) == ("failed", "out_of_memory")
    assert status.last_lines is not None
    assert status.last_lines[-1] == "CUDA error: out of memory"
    assert left.states() == ["failed"]
    assert KEY_FILE not in left.files.content


async def test_an_engine_that_ended_under_one_agent_is_no_news_for_the_next(left: FakeNode):
    left.started[0].end(1)
    async with left.agent():
        pass
    left.told.clear()
    async with left.agent() as supervisor:
        assert supervisor.statuses() == ()
    assert left.told == []


async def test_a_process_of_this_agent_that_no_record_describes_is_killed():
    node = FakeNode()
    lost = orphan(node)
    lost.takes_kill = False
    async with node.agent() as supervisor:
        (held,) = supervisor.statuses()
        assert (held.replica, held.state) == ("lost-abc123", "stopping")
        assert held.spec is not None
        assert held.spec.devices == ("GPU-a", "GPU-b")
        await node.clock.advance(30)
        assert [s.state for s in supervisor.statuses()] == ["stopping"]
        lost.end(-9)
        await node.run_until("stopped")
        assert supervisor.statuses() == ()
    assert set(lost.signals) == {signal.SIGKILL}


async def test_another_agents_engine_on_the_same_machine_lives():
    node = FakeNode()
    other = orphan(node, state="/state/other-agent")
    async with node.agent() as supervisor:
        assert supervisor.statuses() == ()
        await node.clock.advance(30)
    assert (other.alive, other.signals) == (True, [])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"spec": {"replica": "tiny', b"\xff\xfe", b"[]", b"null", b'{"spec": 1}'],
)
async def test_an_engine_whose_record_is_damaged_is_killed_and_the_rest_goes_on(
    left: FakeNode, content: bytes
):
    engine = left.started[0]
    left.files.content[RECORD] = content
    async with left.agent() as supervisor:
        status = await left.run_until("stopped", replica="tiny")
        assert "nothing describes it" in (status.reason or "")
        assert (engine.alive, engine.signals) == (False, [signal.SIGKILL])
        left.told.clear()
        await supervisor.start(shard_spec("other-abc123"), KEY)
        await left.run_until("ready")


async def test_a_record_of_another_shard_describes_nothing(left: FakeNode):
    left.files.content[STATE / "shards" / "fake-abc123.0" / "shard.json"] = left.files.content[
        RECORD
    ]
    async with left.agent() as supervisor:
        assert [s.replica for s in supervisor.statuses()] == ["tiny-abc123"]
        assert left.started[0].alive
    assert left.files.names(STATE / "shards") == ("tiny-abc123.0",)


async def test_a_lost_key_leaves_the_engine_running_and_a_later_start_brings_it_back(
    left: FakeNode,
):
    left.files.remove(KEY_FILE)
    async with left.agent() as supervisor:
        (status,) = supervisor.statuses()
        assert (status.state, status.keyed) == ("ready", True)
        await supervisor.start(shard_spec(), KEY)
        assert left.files.content[KEY_FILE] == KEY.encode()
    assert len(left.started) == 1


async def test_an_engine_started_just_before_the_agent_died_is_found_by_its_command_line(
    left: FakeNode,
):
    keep(left, msgspec.structs.replace(kept(left), process=None, state="starting", ready=False))
    async with left.agent() as supervisor:
        assert [s.pid for s in supervisor.statuses()] == [left.started[0].pid]
        assert (await left.run_until("ready")).adopted is True
        assert kept(left).process is not None


async def test_another_command_line_under_the_same_shards_name_is_killed(left: FakeNode):
    argv = (*(kept(left).argv or ()), "--other")
    keep(left, msgspec.structs.replace(kept(left), process=None, argv=argv))
    async with left.agent():
        await left.run_until("stopped")
    assert left.started[0].signals == [signal.SIGKILL]


async def test_a_child_of_an_adopted_engine_in_a_group_of_its_own_is_left_alone(left: FakeNode):
    child = left.processes.add(["worker"], left.started[0].environ)
    async with left.agent() as supervisor:
        await left.clock.advance(5)
        assert child.alive
        await supervisor.stop("tiny-abc123", 0, None)
        await left.run_until("stopped")
    assert not child.alive


async def test_a_start_that_was_downloading_is_forgotten():
    node = FakeNode()
    node.weights.come.clear()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await settle()
    node.told.clear()
    async with node.agent() as supervisor:
        assert supervisor.statuses() == ()
    assert node.told == []


async def test_a_hostile_name_in_an_environment_leaves_the_directory_alone():
    node = FakeNode()
    node.files.content[STATE / "agent.yaml"] = b"precious"
    lost = orphan(node, shard="c/n1/../../0")
    async with node.agent() as supervisor:
        assert (await node.run_until("stopped")).replica == f"unknown-{lost.pid}"
        assert supervisor.statuses() == ()
    assert node.files.content == {STATE / "agent.yaml": b"precious"}


async def test_a_record_of_a_newer_agent_is_read(left: FakeNode):
    record = msgspec.json.decode(left.files.content[RECORD])
    record["colour"] = "blue"
    record["spec"]["mood"] = 1
    left.files.content[RECORD] = msgspec.json.encode(record)
    async with left.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["ready"]


async def test_files_that_are_no_shards_are_left_alone():
    node = FakeNode()
    note = STATE / "shards" / "README"
    node.files.content[note] = b"x"
    async with node.agent() as supervisor:
        assert supervisor.statuses() == ()
    assert node.files.content == {note: b"x"}


async def test_an_engine_without_a_command_line_yet_is_known_again_later():
    node = FakeNode()
    begun = node.processes.on_start

    def late(process: FakeProcess, log: Path) -> None:
        argv, process.argv = process.argv, ()
        asyncio.get_running_loop().call_soon(setattr, process, "argv", argv)
        begun(process, log)

    node.processes.on_start = late
    node.ready = False
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.clock.advance(0.1)
    async with node.agent() as supervisor:
        assert [s.pid for s in supervisor.statuses()] == [node.started[0].pid]


async def test_an_engine_that_renames_itself_while_it_starts_is_known_again():
    node = FakeNode(ready=False)
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("starting")
        await node.clock.advance(1)
        node.started[0].argv = (*node.started[0].argv, "renamed")
        node.ready = True
        await node.run_until("ready")
    async with node.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["ready"]


@pytest.mark.parametrize("broken", ["full", "read_only"])
@pytest.mark.parametrize("before", ["ready", "stopping", "starting"])
async def test_a_disk_that_takes_nothing_keeps_no_agent_from_what_was_left(
    left: FakeNode, broken: str, before: str
):
    lost = {**msgspec.to_builtins(kept(left)), "state": before}
    keep(left, msgspec.convert({**lost, "process": None}, Kept))
    left.started[0].alive = False
    setattr(left.files, broken, True)
    async with left.agent() as supervisor:
        assert supervisor.statuses() == ()
        await left.clock.advance(30)
        await supervisor.start(shard_spec(replica="next-abc123"), KEY)
        status = await left.run_until("failed")
    assert f"can't be started: {STATE}: " in (status.reason or "")


@pytest.mark.parametrize("broken", ["full", "read_only"])
async def test_an_engine_that_ended_unwatched_is_told_though_nothing_can_be_written(
    left: FakeNode, broken: str
):
    left.started[0].alive = False
    setattr(left.files, broken, True)
    async with left.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["failed"]


@pytest.mark.parametrize("broken", ["full", "read_only"])
async def test_engines_are_adopted_and_stopped_though_nothing_can_be_written(
    left: FakeNode, broken: str
):
    setattr(left.files, broken, True)
    async with left.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["ready"]
        await supervisor.stop("tiny-abc123", 0, "drained")
        await left.run_until("stopped")
    assert left.started[0].signals == [signal.SIGTERM]


@pytest.mark.parametrize(
    "shard", ["c/n1/lost-abc123/99999", f"c/n1/lost-abc123/{'9' * 5000}", "c/n1/../0", "c/n1/a\n/0"]
)
async def test_a_process_that_names_no_shard_of_ours_is_ended_all_the_same(shard: str):
    node = FakeNode()
    lost = orphan(node, shard)
    async with node.agent() as supervisor:
        await node.run_until("stopped")
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    assert not lost.alive


def test_the_source_of_a_log_names_a_shard_or_is_refused():
    assert parse_source("tiny-abc123/0") == ("tiny-abc123", 0)
    for source in ("", "a", "a/", "/0", "../../etc/passwd", "a/x", f"a/{'9' * 5000}", "a/\u0661"):
        with pytest.raises(NotFound, match="is no shard"):
            parse_source(source)


async def test_an_engine_whose_memory_hangs_is_adopted_by_pid_and_start_time(left: FakeNode):
    left.started[0].memory_readable = False
    async with left.agent() as supervisor:
        (status,) = supervisor.statuses()
        assert (status.pid, status.adopted) == (left.started[0].pid, True)
        await left.clock.advance(5)
        assert left.started[0].signals == []


async def test_a_process_that_hangs_under_a_recorded_pid_with_another_start_is_not_adopted(
    left: FakeNode,
):
    left.started[0].memory_readable = False
    left.started[0].started += 1
    async with left.agent() as supervisor:
        assert [s.state for s in supervisor.statuses()] == ["failed"]
    assert left.started[0].signals == []


async def test_an_engine_that_hangs_from_its_start_on_is_written_down():
    node = FakeNode()
    begun = node.processes.on_start

    def hang(process: FakeProcess, log: Path) -> None:
        process.memory_readable = False
        begun(process, log)

    node.processes.on_start = hang
    node.ready = False
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.clock.advance(0.1)
    written = kept(node)
    assert written.process is not None
    assert (written.process.pid, written.process.argv) == (node.started[0].pid, written.argv)
