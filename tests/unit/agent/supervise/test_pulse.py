"""An engine lives as long as tokens move: what counts as stuck and what does not."""

import asyncio
from typing import Any

import pytest

from llmgw.base.errors import TimedOut
from llmgw.base.world import HttpAnswer
from llmgw_agent.parse.engine_metrics import EngineUse
from llmgw_agent.supervise.pulse import (
    CANARIES,
    CANARY_LIMIT,
    STILL_FOR,
    Pulse,
    until_stuck,
)
from tests.fakes.clock import FakeClock


def use(running: int | None = 1, waiting: int | None = 0, moved: float | None = 5.0) -> EngineUse:
    return EngineUse(running=running, waiting=waiting, moved=moved)


def test_requests_while_no_token_moves_for_long_are_stuck():
    pulse = Pulse(STILL_FOR)
    assert pulse.look(use(), 0.0) is None
    assert pulse.look(use(), STILL_FOR - 1) is None
    words = pulse.look(use(running=3, waiting=2), STILL_FOR)
    assert words == "no token moved for 3m00s (requests running: 3, waiting: 2)"


@pytest.mark.parametrize(
    "between",
    [use(moved=6.0), use(running=0), use(running=None, waiting=None), use(moved=None)],
    ids=["a token moved", "nothing to do", "not said", "no totals"],
)
def test_it_counts_from_the_last_sign_of_life(between: EngineUse):
    pulse = Pulse(STILL_FOR)
    pulse.look(use(), 0.0)
    assert pulse.look(between, STILL_FOR - 1) is None
    assert pulse.look(use(), STILL_FOR) is None
    assert pulse.look(use(), 2 * STILL_FOR - 2) is None


def test_an_idle_engine_is_never_stuck():
    pulse = Pulse(STILL_FOR)
    assert all(pulse.look(use(running=0), 1000.0 * n) is None for n in range(10))


def test_totals_that_fall_are_a_new_count_and_no_stand_still():
    pulse = Pulse(STILL_FOR)
    pulse.look(use(moved=500.0), 0.0)
    assert pulse.look(use(moved=1.0), STILL_FOR) is None


class Engine:
    """An engine that answers as a test says, as its agent asks it."""

    def __init__(self, *, metrics: str | None, answers_canary: bool = True) -> None:
        self.metrics = metrics
        self.answers_canary = answers_canary
        self.canaries: list[float] = []
        self.clock = FakeClock()
        self.uses: list[EngineUse | None] = []
        self.http = self
        self.name, self.key = "r/0", None
        self.address, self.port = "127.0.0.1", 7500
        self.spec = "spec"
        self.metrics_path = "/metrics"
        self.stuck_after: float | None = None

    def served_name(self, spec: object) -> str:
        return "m"

    def note_use(self, use: EngineUse | None) -> None:
        self.uses.append(use)

    async def request(self, method: str, url: str, **more: Any) -> HttpAnswer:
        if method == "POST":
            self.canaries.append(self.clock.monotonic())
            if not self.answers_canary:
                await self.clock.sleep(more["timeout"])
                raise TimedOut("no answer")
            return HttpAnswer(500, b"")
        if self.metrics is None:
            return HttpAnswer(404, b"")
        return HttpAnswer(200, self.metrics.encode())

    async def watched(self, seconds: float) -> str | None:
        """Watch it for so long; return why it is stuck, or None."""
        watching = asyncio.ensure_future(until_stuck(self, self, self))  # type: ignore[arg-type]
        for _ in range(int(seconds / 5)):
            await self.clock.advance(5)
            if watching.done():
                return watching.result()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return None


PAGE = "llamacpp:requests_processing 1\nllamacpp:tokens_predicted_total {}"


async def test_an_engine_that_tells_nothing_is_asked_for_one_token_and_twice_before_it_is_stuck():
    engine = Engine(metrics=None, answers_canary=False)
    words = await engine.watched(1000)
    assert words == "2 requests for one token were not answered within 2m00s each"
    assert len(engine.canaries) == CANARIES
    assert engine.canaries[1] - engine.canaries[0] >= CANARY_LIMIT


async def test_any_answer_to_a_canary_is_life():
    engine = Engine(metrics=None)
    assert await engine.watched(1000) is None
    assert len(engine.canaries) > CANARIES
    assert set(engine.uses) == {None}


async def test_an_engine_that_tells_is_not_asked_for_tokens_and_its_use_is_noted():
    engine = Engine(metrics=PAGE.format(7))
    assert await engine.watched(STILL_FOR - 10) is None
    assert engine.canaries == []
    assert engine.uses[-1] == EngineUse(running=1, moved=7.0)
    assert "no token moved" in (await engine.watched(STILL_FOR + 20) or "")


async def test_an_agent_may_be_told_how_long_an_engine_may_stand_still():
    engine = Engine(metrics=PAGE.format(7))
    engine.stuck_after = 20.0
    assert await engine.watched(20) is None
    words = await engine.watched(30)
    assert words == "no token moved for 20s (requests running: 1, waiting: 0)"
