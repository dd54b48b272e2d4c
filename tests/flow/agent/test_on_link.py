"""An agent on the real link: mTLS on loopback, streams that are cut, certificates that end."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from llmgw.base.backoff import Backoff
from llmgw.base.clock import SystemClock
from llmgw.base.system import SystemFiles
from llmgw.link.dial import Dialer
from llmgw.link.enrol import own_certificate
from llmgw.link.tls import TlsFiles, client_context
from llmgw.model.commands import Accepted, Declined, LogsRead, ReadLogs, StartShard, StopShard
from llmgw.model.node import WeightsHeld
from llmgw.model.settings import EngineBuild, EngineOrder, NodeSettings
from llmgw.model.shard import ShardStatus
from llmgw_agent.renewal import Renewal
from tests.fakes.agent import FakeAgent
from tests.fakes.node import shard_spec
from tests.flow.agent.control import WatchedPlace, ended, watched
from tests.only import only
from tests.waiting import wait_until


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[WatchedPlace]:
    async with watched(tmp_path) as made:
        yield made


def ordered(version: str) -> EngineOrder:
    return EngineOrder(builds=(EngineBuild(version=version),))


def dialer(place: WatchedPlace, context: Callable[[], object]) -> Dialer:
    return Dialer(
        lambda: [place.address],
        context,  # type: ignore[arg-type]
        "agent",
        clock=SystemClock(),
        rng=random.Random(1),
        backoff=Backoff(first=0.02, most=0.1),
        silence=15.0,
    )


@asynccontextmanager
async def running(
    place: WatchedPlace, files: TlsFiles, renewal: Renewal | None = None
) -> AsyncIterator[FakeAgent]:
    context = renewal.context if renewal is not None else lambda: client_context(files)
    agent = FakeAgent(SystemClock(), renewal=renewal, dialer=dialer(place, context))
    task = asyncio.create_task(agent.core.run())
    try:
        await wait_until(place.control.heartbeats, what="the first heartbeat")
        yield agent
    finally:
        agent.dialer.stop()
        await ended(task)


async def test_an_agent_registers_beats_and_serves_over_the_wire(place: WatchedPlace):
    place.control.settings = NodeSettings(version=3, engines={"llamacpp": ordered("1")})
    async with running(place, place.issue("node", "gpu-01")) as agent:
        register = only(place.control.registers())
        assert (register.node, register.machine) == ("gpu-01", "boot-1")
        assert register.inventory is not None
        assert register.inventory.weights == ()
        assert place.control.heartbeats()[0].weights == ()
        assert agent.shards.adopted == 1
        await wait_until(lambda: agent.engines.orders)
        assert agent.engines.orders[-1] == {"llamacpp": ordered("1")}
        reply = await place.control.ask(StartShard(spec=shard_spec(), key="secret"))
        assert reply.answer == Accepted()
        assert agent.shards.started == [(shard_spec(), "secret")]
        declined = (await place.control.ask(StopShard(replica="none-1"))).answer
        assert isinstance(declined, Declined)
        assert declined.not_found
        agent.ring.add("hello")
        read = (await place.control.ask(ReadLogs(lines=1))).answer
        assert read == LogsRead(lines=("hello",), sources=())
        count = len(place.control.heartbeats())
        await wait_until(lambda: len(place.control.heartbeats()) > count + 2)
    numbers = [beat.sequence for beat in place.control.heartbeats()]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_stream_that_is_severed_is_opened_again_and_begins_with_everything(
    place: WatchedPlace,
):
    async with running(place, place.issue("node", "gpu-01")) as agent:
        assert agent.dialer.opened == 1
        agent.weights.sets, agent.weights.print = (WeightsHeld(name="w-1"),), "one"
        await wait_until(lambda: place.control.heartbeats()[-1].weights_print == "one")
        agent.shards.running = (ShardStatus(replica="a-1", state="ready", spec=shard_spec("a-1")),)
        before = len(place.control.heartbeats())
        place.control.sever()
        agent.uplink.close()
        agent.uplink.tell(ShardStatus(replica="b-1", state="failed", reason="bad file"))
        await wait_until(lambda: len(place.control.registers()) == 2)
        assert agent.dialer.opened == 2
        register = place.control.registers()[1]
        assert {status.replica: status.state for status in register.shards or ()} == {
            "a-1": "ready",
            "b-1": "failed",
        }
        assert register.inventory is not None
        assert register.inventory.weights == (WeightsHeld(name="w-1"),)
        await wait_until(lambda: len(place.control.heartbeats()) > before)
        first = place.control.heartbeats()[before]
        assert first.weights == (WeightsHeld(name="w-1"),)


async def test_a_control_plane_that_restarts_gets_everything_again(place: WatchedPlace):
    async with running(place, place.issue("node", "gpu-01")) as agent:
        port = place.port
        await place.server.stop("restarts")
        place.server = place.new_server()
        place.control.term = 2
        await place.start(port)
        await wait_until(lambda: len(place.control.registers()) == 2, 20)
        assert place.control.registers()[1].highest_term == 1
        await wait_until(lambda: agent.remembered.term == 2)
        place.control.term = 1
        stale = (await place.control.ask(StartShard(spec=shard_spec()))).answer
        assert isinstance(stale, Declined)
        assert stale.stale_term == 2
        assert agent.shards.started == []


async def test_a_certificate_is_renewed_over_the_live_stream_and_opens_the_next_one(
    place: WatchedPlace,
):
    files = place.issue("node", "gpu-01", lifetime=3.0)
    own = own_certificate(files)
    directory = files.certificate.parent
    renewal = Renewal(own, directory, SystemClock(), SystemFiles())
    async with running(place, files, renewal) as agent:
        await wait_until(lambda: place.control.signed == 1, 10, what="a request to sign")
        await wait_until(lambda: own_certificate(files).identity.serial != own.identity.serial)
        # The same stream goes on; the key is another one, and the file is private still.
        assert agent.dialer.opened == 1
        assert files.key.stat().st_mode & 0o077 == 0
        place.control.sever()
        await wait_until(lambda: len(place.control.registers()) == 2)
        identity = place.control.stream.identity
        assert identity is not None
        assert identity.serial == own_certificate(files).identity.serial
        count = len(place.control.heartbeats())
        await wait_until(lambda: len(place.control.heartbeats()) > count)


async def test_an_agent_that_is_stopped_closes_its_stream_in_order(place: WatchedPlace):
    async with running(place, place.issue("node", "gpu-01")):
        stream = place.control.stream
    await wait_until(lambda: stream.ended)
    assert agent_lines(place) == len(place.control.registers()) == 1


def agent_lines(place: WatchedPlace) -> int:
    return sum(message.register is not None for message in place.control.heard)


async def test_a_log_is_followed_over_the_wire(place: WatchedPlace):
    async with running(place, place.issue("node", "gpu-01")) as agent:
        await place.control.ask(ReadLogs(follow=True))
        for number in range(3):
            agent.ring.add(f"line {number}")
        lines = await wait_until(
            lambda: [m.log_lines for m in place.control.heard if m.log_lines is not None]
        )
        assert [line for batch in lines for line in batch.lines] == ["line 0", "line 1", "line 2"]
