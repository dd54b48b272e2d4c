"""A shard from its start to its end, on a virtual clock."""

import signal
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, Refused, Unreachable, Unreadable
from llmgw.base.world import Done, HttpAnswer
from llmgw.model.device import Device
from llmgw.model.shard import Progress
from llmgw_agent.engines.adapter import NodeFacts
from tests.fakes.clock import settle
from tests.fakes.node import FIXTURES, KEY, STATE, VULKAN_LOG, FakeNode, port_of, shard_spec

SHARD_DIR = STATE / "shards" / "tiny-abc123.0"


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


@pytest.mark.parametrize(
    ("rc", "words"),
    [
        (3, "exited with code 3"),
        (-signal.SIGSEGV, "was ended by signal SIGSEGV"),
        (-signal.SIGKILL, "SIGKILL, as the kernel does when memory runs out"),
    ],
)
async def test_an_end_that_nothing_explains_is_told_by_its_status(
    node: FakeNode, rc: int, words: str
):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.started[0].end(rc)
        await settle()
    assert node.states()[-1] == "failed"
    assert (node.told[-1].cause, words in (node.told[-1].reason or "")) == ("exited", True)


async def test_a_processor_of_the_wrong_kind_is_told(node: FakeNode):
    node.log = (FIXTURES / "llama-server" / "sigill-wrong-processor.log").read_bytes()
    node.dies_with = -signal.SIGILL
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert status.cause == "bad_build"


async def test_out_of_memory_says_who_holds_the_device(node: FakeNode):
    node.log = (FIXTURES / "llama.cpp" / "oom-144gb.txt").read_bytes()
    node.dies_with = 1
    node.holders = "GPU-a: pid 4711 (python train.py) holds 70000 MiB"
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(devices=("GPU-a",)), KEY)
        status = await node.run_until("failed")
    assert status.cause == "out_of_memory"
    assert "pid 4711 (python train.py) holds 70000 MiB" in (status.reason or "")


async def test_a_port_taken_at_bind_time_is_tried_once_more_on_another(node: FakeNode):
    taken = (FIXTURES / "llama-server" / "port-in-use.log").read_bytes()
    good, node.log, node.dies_with = node.log, taken, 1

    def second_is_good(process: object, log: Path) -> None:
        on_start(process, log)  # type: ignore[arg-type]
        node.log, node.dies_with = good, None

    on_start, node.processes.on_start = node.processes.on_start, second_is_good
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("ready")
    assert node.states() == ["fetching", "starting", "ready"]
    first, second = node.started
    assert port_of(first) != port_of(second) == status.port
    assert status.compute is not None


async def test_a_port_taken_twice_fails_the_shard(node: FakeNode):
    node.log = (FIXTURES / "llama-server" / "port-in-use.log").read_bytes()
    node.dies_with = 1
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert (status.cause, len(node.started)) == ("port_taken", 2)


async def test_another_service_on_the_port_is_not_taken_for_the_engine(node: FakeNode):
    def stranger(url: str, headers: object) -> HttpAnswer:
        return HttpAnswer(status=401 if url.endswith("/metrics") else 200, body=b"{}")

    node.http.answering = stranger
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert status.cause == "port_taken"
    assert "refuses this replica's key" in (status.reason or "")
    assert not node.processes.live()


async def test_no_free_port_is_told_with_the_range(node: FakeNode):
    node.busy_ports = {7500, 7501, 7502}
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert status.cause == "port_taken"
    assert "7500-7502" in (status.reason or "")


async def test_shards_never_share_a_port(node: FakeNode):
    node.ready = False
    async with node.agent() as supervisor:
        for letter in "abc":
            await supervisor.start(shard_spec(f"{letter}-abc123"), KEY)
        await node.clock.advance(1)
        assert {port_of(process) for process in node.started} == {7500, 7501, 7502}


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
    from llmgw_agent.engines.programs import Program

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
