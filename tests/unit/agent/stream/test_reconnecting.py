"""How long an agent may stay away."""

import random

import pytest

from llmgw.control.settings import reconnect_within
from llmgw.model.settings import LEAST_RECONNECT, NodeSettings, ReconcileSettings, Settings
from llmgw_agent.assembly import RECONNECT
from tests.fakes.agent import FakeAgent
from tests.fakes.clock import FakeClock

SETTLING = Settings().reconcile.settling


def test_an_agent_that_was_told_nothing_keeps_to_the_default_settling() -> None:
    # An agent that comes later finds its replicas started elsewhere, and its own are stopped.
    longest = max(RECONNECT.limit(attempt) for attempt in range(64))
    assert longest <= SETTLING * 2 / 3


@pytest.mark.parametrize("settling", [3.0, 4.0, 15.0, 45.0, 600.0])
def test_agents_are_told_to_be_back_while_a_control_plane_that_starts_still_waits(
    settling: float,
) -> None:
    assert reconnect_within(settling) <= settling * 2 / 3


def test_agents_of_a_control_plane_that_waits_for_nobody_do_not_press_on_it() -> None:
    assert reconnect_within(ReconcileSettings(settling=0.0).settling) == LEAST_RECONNECT


def test_what_an_agent_is_told_bounds_its_waits_and_is_kept(clock: FakeClock) -> None:
    agent = FakeAgent(clock)
    agent.core.apply(NodeSettings(version=2, reconnect_within=3.0))
    agent.core.apply(NodeSettings(version=3))  # one that says nothing changes nothing
    rng = random.Random(7)
    waits = [agent.dialer._backoff.delay(attempt, rng) for attempt in range(64)]
    assert max(waits) <= 3.0
    assert agent.remembered.settings is not None
    assert agent.remembered.settings.reconnect_within == 3.0
