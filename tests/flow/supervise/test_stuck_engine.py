"""An engine whose health is fine and whose requests never end: noticed, said, ended when told."""

import asyncio
import contextlib

import pytest

from llmgw.model.shard import STUCK
from llmgw_agent.supervise import pulse
from tests.agents import KEY, RealNode, ask
from tests.flow.supervise.test_simulated_shards import spec
from tests.waiting import wait_until


async def test_an_engine_that_hangs_is_stuck_with_its_last_output(
    node: RealNode, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pulse, "PERIOD", 0.1)
    monkeypatch.setattr(pulse, "STILL_FOR", 0.5)
    async with node.agent() as agent:
        await agent.start(spec("--fault", "hang-after=2"), KEY)
        ready = await node.until("ready")
        body = {"prompt": "Hello", "max_tokens": 8}
        asking = asyncio.ensure_future(ask(ready, "/v1/completions", body))
        try:
            await wait_until(lambda: agent.uses().get(("demo-abc123", 0)) is not None)
            stuck = await node.until(STUCK)
            assert "no token moved for" in (stuck.reason or "")
            assert "(requests running: 1, waiting: 0)" in (stuck.reason or "")
            assert stuck.last_lines
            assert agent.uses()["demo-abc123", 0].running == 1
            assert (await ask(ready, "/health")).status == 200
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
        await agent.stop("demo-abc123", 0, "it is stuck")
        failed = await node.until("failed")
        assert (failed.cause, failed.reason) == ("stuck", stuck.reason)
        assert failed.last_lines
        assert agent.log("demo-abc123/0", 5)
    assert node.ours() == ()


async def test_an_engine_that_works_is_not_stuck(node: RealNode, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulse, "PERIOD", 0.05)
    monkeypatch.setattr(pulse, "STILL_FOR", 0.5)
    async with node.agent() as agent:
        await agent.start(spec("--tokens-per-second", "20"), KEY)
        status = await node.until("ready")
        answer = await ask(status, "/v1/completions", {"prompt": "Hello", "max_tokens": 40})
        assert answer.status == 200
        assert [one.state for one in agent.statuses()] == ["ready"]
        await agent.stop("demo-abc123", 0, "done")
        await node.until("stopped")
