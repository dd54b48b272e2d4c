"""What a shard holds is given to no other, whatever a command says."""

import pytest

from llmgw.base.errors import Refused
from llmgw_agent.engines.adapter import NodeFacts
from tests.fakes.node import KEY, VULKAN_LOG, FakeNode, shard_spec

GB = 10**9


async def test_a_device_that_a_live_shard_holds_is_given_to_no_other():
    node = FakeNode()
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec("one-aaaaaa", devices=("GPU-a", "GPU-b")), KEY)
        with pytest.raises(Refused, match="GPU-b: held by one-aaaaaa/0, which is fetching"):
            await supervisor.start(shard_spec("two-bbbbbb", devices=("GPU-b",)), KEY)
        await supervisor.start(shard_spec("two-bbbbbb", devices=("GPU-c",)), KEY)
        assert supervisor.sources() == ("one-aaaaaa/0", "two-bbbbbb/0")


async def test_a_device_is_given_again_once_its_process_is_gone_and_not_before():
    node = FakeNode(log=VULKAN_LOG)
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec("one-aaaaaa", devices=("GPU-a",)), KEY)
        await node.run_until("starting")
        node.started[0].takes_term = False
        await supervisor.stop("one-aaaaaa", 0, "not wanted")
        await node.run_until("stopping")
        with pytest.raises(Refused, match="which is stopping"):
            await supervisor.start(shard_spec("two-bbbbbb", devices=("GPU-a",)), KEY)
        await node.run_until("stopped")
        await supervisor.start(shard_spec("two-bbbbbb", devices=("GPU-a",)), KEY)


async def test_memory_is_not_given_out_twice_and_what_is_left_is_said():
    node = FakeNode(facts=NodeFacts(memory_bytes=64 * GB))
    async with node.agent() as supervisor:
        await supervisor.start(shard_spec("one-aaaaaa", memory_bytes=40 * GB), KEY)
        with pytest.raises(Refused, match="24 GB of memory is not reserved, needs 32 GB"):
            await supervisor.start(shard_spec("two-bbbbbb", memory_bytes=32 * GB), KEY)
        await supervisor.start(shard_spec("two-bbbbbb", memory_bytes=24 * GB), KEY)
