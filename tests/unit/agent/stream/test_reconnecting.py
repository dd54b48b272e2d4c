"""How long an agent may stay away."""

from llmgw.model.settings import Settings
from llmgw_agent.assembly import RECONNECT


def test_every_agent_tries_again_while_a_control_plane_that_starts_still_waits_for_it() -> None:
    # An agent that comes later finds its replicas started elsewhere, and its own are stopped.
    longest = max(RECONNECT.limit(attempt) for attempt in range(64))
    assert longest <= Settings().reconcile.settling * 2 / 3
