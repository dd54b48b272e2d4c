"""An engine that ends or is refused while it starts, and how that is told."""

import signal
from pathlib import Path

import pytest

from llmgw.base.world import HttpAnswer
from tests.fakes.clock import settle
from tests.fakes.node import FIXTURES, KEY, FakeNode, port_of, shard_spec


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


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
