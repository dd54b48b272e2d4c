"""One stream of an agent: what it says unasked, and when; how the stream ends."""

import asyncio

import msgspec
import pytest

from llmgw.base.errors import Unreachable
from llmgw.model.commands import ApplySettings
from llmgw.model.link import AgentControl, AgentMessage, Goodbye, Ping
from llmgw.model.node import Filesystem, Heartbeat, Host, InstalledEngine, Inventory, WeightsHeld
from llmgw.model.settings import NodeSettings
from llmgw.model.shard import ShardStatus
from tests.fakes.agent import FakeAgent, MemoryStream, welcome
from tests.fakes.clock import FakeClock, settle
from tests.fakes.node import shard_spec
from tests.only import only
from tests.unit.agent.stream.opened import kind, stream_of


@pytest.fixture
def agent(clock: FakeClock) -> FakeAgent:
    return FakeAgent(clock)


async def test_the_first_message_carries_everything_there_is_to_know(agent: FakeAgent):
    agent.engines.list = (InstalledEngine(engine="llamacpp", state="installed"),)
    agent.engines.probed = True
    agent.facts.recorded = msgspec.structs.replace(
        agent.facts.recorded, filesystems=(Filesystem(mount="/"),), devices=()
    )
    agent.shards.running = (ShardStatus(replica="a-1", state="ready", spec=shard_spec("a-1")),)
    async with stream_of(agent) as open_:
        register = open_.stream.sent[0].register
        assert register is not None
        assert (register.node, register.boot, register.machine) == ("gpu-01", "b1", "boot-1")
        assert (register.address, register.labels) == ("10.0.0.1", {"rack": "3"})
        known = {"shards", "settings", "logs", "remove_weights", "fetch", "nvlink_domain"}
        assert set(register.features or ()) == known
        inventory = register.inventory
        assert inventory is not None
        assert inventory.engines_probed is True
        assert (inventory.can_install, inventory.devices) == (("llamacpp",), ())
        assert inventory.filesystems == (Filesystem(mount="/"),)
        assert inventory.weights == ()
        assert only(register.shards).spec == shard_spec("a-1")


async def test_nothing_but_register_is_said_before_the_welcome(agent: FakeAgent, clock):
    stream = MemoryStream()
    task = asyncio.ensure_future(agent.core.session(stream))
    await clock.advance(30)
    assert [kind(message) for message in stream.sent] == ["register"]
    stream.end()
    await task


async def test_heartbeats_come_at_the_interval_of_the_welcome(agent: FakeAgent, clock: FakeClock):
    async with stream_of(agent, interval=2.0) as open_:
        assert open_.stream.intervals == [2.0]
        assert open_.kinds() == ["register", "heartbeat"]
        await clock.advance(1.9)
        assert open_.kinds() == []
        await clock.advance(0.1)
        assert open_.kinds() == ["heartbeat"]
        await clock.advance(20)
        assert open_.kinds() == ["heartbeat"] * 10


async def test_heartbeats_are_numbered_on_across_streams(agent: FakeAgent, clock: FakeClock):
    numbers = []
    for _ in range(2):
        async with stream_of(agent) as open_:
            await clock.advance(5)
            beats = [m.heartbeat for m in open_.stream.take() if m.heartbeat is not None]
            numbers += [beat.sequence for beat in beats]
    assert numbers == [1, 2, 3, 4]


async def test_a_longer_interval_is_expected_at_once_and_not_after_a_false_alarm(agent: FakeAgent):
    async with stream_of(agent, interval=1.0) as open_:
        await open_.ask(ApplySettings(settings=NodeSettings(version=2, heartbeat_interval=60.0)))
        assert open_.stream.intervals == [1.0, 60.0]


async def test_an_interval_that_is_changed_live_holds_at_once(agent: FakeAgent, clock: FakeClock):
    async with stream_of(agent, interval=60.0) as open_:
        await open_.ask(ApplySettings(settings=NodeSettings(version=2, heartbeat_interval=1.0)))
        open_.kinds()
        await clock.advance(3)
        assert open_.kinds().count("heartbeat") == 3
        assert open_.stream.intervals[-1] == 1.0


def beats(messages: list[AgentMessage]) -> list[Heartbeat]:
    return [message.heartbeat for message in messages if message.heartbeat is not None]


async def test_the_list_of_weights_goes_only_when_its_fingerprint_changed(
    agent: FakeAgent, clock: FakeClock
):
    async with stream_of(agent) as open_:
        first = only(beats(open_.stream.take()))
        assert (first.weights_print, first.weights) == ("none", ())
        await clock.advance(5)
        assert only(beats(open_.stream.take())).weights is None
        agent.weights.sets, agent.weights.print = (WeightsHeld(name="w-1"),), "one"
        await clock.advance(5)
        assert only(beats(open_.stream.take())).weights == (WeightsHeld(name="w-1"),)
        agent.weights.sets, agent.weights.print = (), "none"
        await clock.advance(5)
        # An empty list says `holds nothing`; no list would say nothing.
        assert only(beats(open_.stream.take())).weights == ()


async def test_weights_that_were_not_looked_at_are_not_said(agent: FakeAgent):
    agent.weights.sets, agent.weights.print = None, None
    async with stream_of(agent) as open_:
        register, beat = open_.stream.take()
        assert register.register is not None
        assert register.register.inventory is not None
        assert register.register.inventory.weights is None
        assert beat.heartbeat is not None
        assert (beat.heartbeat.weights_print, beat.heartbeat.weights) == (None, None)


async def test_a_new_stream_begins_with_full_lists_also_while_another_is_open(agent: FakeAgent):
    agent.weights.sets, agent.weights.print = (WeightsHeld(name="w-1"),), "one"
    async with stream_of(agent), stream_of(agent) as second:
        register, beat = second.stream.take()
        assert register.register is not None
        assert register.register.inventory is not None
        assert register.register.inventory.weights == (WeightsHeld(name="w-1"),)
        assert beat.heartbeat is not None
        assert beat.heartbeat.weights == (WeightsHeld(name="w-1"),)


async def test_only_what_changed_of_the_inventory_is_said(agent: FakeAgent, clock: FakeClock):
    async with stream_of(agent) as open_:
        open_.stream.take()
        await clock.advance(5)
        assert open_.kinds() == ["heartbeat"]
        agent.facts.recorded = msgspec.structs.replace(
            agent.facts.recorded, host=Host(hostname="gpu-01", memory_bytes=2)
        )
        await clock.advance(5)
        sent = [m.inventory for m in open_.stream.take() if m.inventory is not None]
        assert sent == [Inventory(host=Host(hostname="gpu-01", memory_bytes=2))]
        await clock.advance(5)
        assert open_.kinds() == ["heartbeat"]


async def test_a_change_that_is_told_goes_up_at_once_and_a_flood_of_them_once_a_second(
    agent: FakeAgent, clock: FakeClock
):
    async with stream_of(agent, interval=60.0) as open_:
        open_.stream.take()
        words = iter(range(100))
        for _ in range(10):
            engine = InstalledEngine(engine="llamacpp", words=f"{next(words)} MB")
            agent.engines.list = (engine,)
            agent.changed.set()
            await settle()
        assert open_.kinds() == ["inventory"]
        await clock.advance(1)
        assert open_.kinds() == ["inventory"]


async def test_free_space_goes_with_heartbeats_and_is_no_change_of_the_inventory(
    agent: FakeAgent, clock: FakeClock
):
    async with stream_of(agent) as open_:
        open_.stream.take()
        space = (Filesystem(mount="/", free_bytes=5),)
        agent.facts.recorded = msgspec.structs.replace(agent.facts.recorded, filesystems=space)
        agent.facts.reading = Heartbeat(sequence=0, filesystems=space)
        await clock.advance(5)
        beat = only(open_.stream.take()).heartbeat
        assert beat is not None
        assert beat.filesystems == space


def status(state: str, reason: str | None = None) -> ShardStatus:
    return ShardStatus(replica="a-1", state=state, reason=reason)


async def test_transitions_go_up_as_they_happen(agent: FakeAgent):
    async with stream_of(agent) as open_:
        open_.stream.take()
        agent.uplink.tell(status("starting"))
        agent.uplink.tell(status("ready"))
        assert [m.shard and m.shard.state for m in open_.stream.take()] == ["starting", "ready"]


async def test_the_latest_status_of_each_shard_is_kept_while_away(agent: FakeAgent):
    agent.uplink.tell(status("starting"))
    agent.uplink.tell(status("failed", "bad file"))
    async with stream_of(agent) as open_:
        register = open_.stream.take()[0].register
        assert register is not None
        assert only(register.shards) == status("failed", "bad file")
    async with stream_of(agent) as open_:
        register = open_.stream.take()[0].register
        assert register is not None
        assert register.shards == ()


async def test_a_status_is_not_lost_when_a_stream_ends_before_its_welcome(agent: FakeAgent):
    agent.uplink.tell(status("failed", "bad file"))
    stream = MemoryStream()
    task = asyncio.ensure_future(agent.core.session(stream))
    await settle()
    stream.lose(Unreachable("cut"))
    with pytest.raises(Unreachable):
        await task
    async with stream_of(agent) as open_:
        register = open_.stream.take()[0].register
        assert register is not None
        assert only(register.shards) == status("failed", "bad file")


async def test_what_runs_goes_before_what_was_kept_of_the_same_shard(agent: FakeAgent):
    agent.uplink.tell(status("starting"))
    agent.shards.running = (status("ready"),)
    async with stream_of(agent) as open_:
        register = open_.stream.take()[0].register
        assert register is not None
        assert only(register.shards).state == "ready"


async def test_a_goodbye_ends_the_stream_with_the_wait_that_it_asks_for(agent: FakeAgent):
    async with stream_of(agent) as open_:
        goodbye = Goodbye(reason="restarts", reconnect_after=3.0, leader="head-2:7442")
        open_.stream.say(AgentControl(goodbye=goodbye))
        await settle()
        assert open_.task.result() == 3.0
        assert agent.core.leader() == "head-2:7442"
    async with stream_of(agent):
        assert agent.core.leader() is None


async def test_a_stream_that_breaks_ends_all_that_belongs_to_it(agent: FakeAgent, clock: FakeClock):
    stream = MemoryStream()
    task = asyncio.ensure_future(agent.core.session(stream))
    stream.say(welcome())
    await settle()
    stream.lose(Unreachable("head:7442: the connection was lost"))
    with pytest.raises(Unreachable, match="the connection was lost"):
        await task
    stream.take()
    await clock.advance(60)
    assert stream.take() == []


async def test_a_ping_needs_no_answer_here(agent: FakeAgent):
    async with stream_of(agent) as open_:
        open_.stream.take()
        open_.stream.say(AgentControl(ping=Ping(number=1)))
        await settle()
        assert open_.kinds() == []


async def test_control_planes_that_are_told_are_kept_for_the_next_start(agent: FakeAgent):
    from llmgw_agent.core import addresses

    async with stream_of(agent, control_planes=("a:7442", "b:7442")):
        pass
    known = addresses(("head:7442", "a:7442"), agent.remembered, "lead:7442")
    assert known == ("lead:7442", "head:7442", "a:7442", "b:7442")
