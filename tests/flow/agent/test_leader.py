"""Several control planes: an agent follows the leader that a standby names, over the real link."""

import asyncio
import random
from pathlib import Path

import pytest

from llmgw.base.backoff import Backoff
from llmgw.base.clock import SystemClock
from llmgw.link.dial import Dialer
from llmgw.link.server import AgentStream, LinkServer
from llmgw.link.tls import client_context
from llmgw.model.link import AgentControl, Goodbye
from llmgw_agent.core import addresses
from tests.fakes.agent import FakeAgent
from tests.flow.agent.control import WatchedPlace, ended, watched
from tests.waiting import wait_until

NOBODY = "127.0.0.1:9"
"""Where no control plane is."""


class Standby:
    """A control plane that does not lead, and names who does."""

    def __init__(self, place: WatchedPlace, leader: str) -> None:
        self.leader = leader
        self.asked = 0
        self.address = ""
        self.server = LinkServer(
            place.context,
            on_agent=self.agent,
            on_gateway=place.control.gateway,
            on_join=place.control,
            clock=place.clock,
            silence=place.silence,
            denied=place.denied.__contains__,
        )

    async def agent(self, stream: AgentStream) -> None:
        async for message in stream:
            if message.register is not None:
                self.asked += 1
                goodbye = Goodbye(reason="this one does not lead", leader=self.leader)
                stream.send(AgentControl(goodbye=goodbye))

    async def start(self) -> None:
        self.address = f"127.0.0.1:{await self.server.start('127.0.0.1', 0)}"


@pytest.mark.parametrize("where", ["first", "second"])
async def test_the_leader_that_a_standby_names_is_asked_next(tmp_path: Path, where: str) -> None:
    async with watched(tmp_path) as place:
        standby = Standby(place, leader=place.address)
        await standby.start()
        configured = (standby.address,) if where == "first" else (NOBODY, standby.address)
        await _welcomed(place, configured)
        assert standby.asked == 1
        await standby.server.stop("the test is over")


async def test_a_standby_that_names_one_that_is_gone_does_not_keep_an_agent_from_the_others(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as place:
        standby = Standby(place, leader=NOBODY)
        await standby.start()
        await _welcomed(place, (standby.address, place.address))
        await standby.server.stop("the test is over")


async def test_whoever_was_sent_on_waits_as_if_nothing_had_failed(tmp_path: Path) -> None:
    attempts: list[int] = []

    class Recorded(Backoff):
        def delay(self, attempt: int, rng: random.Random) -> float:
            attempts.append(attempt)
            return 0.0

    async with watched(tmp_path) as place:
        standby = Standby(place, leader=place.address)
        await standby.start()
        await _welcomed(place, (NOBODY, standby.address), Recorded(first=5.0))
        await standby.server.stop("the test is over")
    assert attempts[:2] == [1, 0]


async def _welcomed(
    place: WatchedPlace,
    configured: tuple[str, ...],
    backoff: Backoff = Backoff(first=0.02, most=0.1),  # noqa: B008 -- frozen
) -> None:
    """Run an agent until the leader has its register."""
    files = place.issue("node", "gpu-01")
    agents: list[FakeAgent] = []
    dialer = Dialer(
        lambda: addresses(configured, agents[0].remembered, agents[0].core.leader()),
        lambda: client_context(files),
        "agent",
        clock=SystemClock(),
        rng=random.Random(1),
        backoff=backoff,
        silence=15.0,
    )
    agents.append(FakeAgent(SystemClock(), dialer=dialer))
    task = asyncio.create_task(agents[0].core.run())
    try:
        await wait_until(place.control.registers, 10, what="a register at the leader")
    finally:
        dialer.stop()
        await ended(task)
