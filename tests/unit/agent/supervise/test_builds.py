"""Builds that are no program of their own, and builds that compute nothing on this machine."""

import signal
from pathlib import Path

import pytest

from llmgw_agent.engines.program import Program
from tests.fakes.node import KEY, FakeNode, port_of, shard_spec

START = ("/usr/bin/python3", "-I", "-S", "-B", "/agent/xllamacpp_server.py", "/engines/packages")
LIBRARY = Program(path=Path("/engines/packages/xllamacpp.so"), version="2026.1", launched=START)


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


async def test_a_library_is_started_by_what_runs_it(node: FakeNode):
    node.programs.answer = LIBRARY
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    (engine,) = node.started
    assert engine.argv[: len(START) + 2] == (*START, "-m", "/models/tiny.gguf")
    assert "LD_LIBRARY_PATH" not in engine.environ
    assert node.processes.ran == [(*START, "--help")]


async def test_a_library_that_a_former_agent_started_is_adopted(node: FakeNode):
    node.programs.answer = LIBRARY
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
    async with node.agent() as supervisor:
        (status,) = supervisor.statuses()
        assert (status.state, status.adopted) == ("ready", True)
        assert status.port == port_of(node.started[0])
    assert len(node.started) == 1


async def test_a_build_that_meets_an_illegal_instruction_is_not_trusted_again(node: FakeNode):
    node.dies_with = -signal.SIGILL
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        status = await node.run_until("failed")
    assert status.cause == "bad_build"
    assert node.programs.distrusted == [(Path("/engines/llama-server"), status.reason)]


async def test_a_build_that_has_computed_stays_trusted_whatever_ends_it(node: FakeNode):
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("ready")
        node.started[0].end(-signal.SIGILL)
        await node.run_until("failed")
    assert node.programs.distrusted == []


async def test_a_build_that_ends_for_another_reason_stays_trusted(node: FakeNode):
    node.dies_with = 1
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec(), KEY)
        await node.run_until("failed")
    assert node.programs.distrusted == []
