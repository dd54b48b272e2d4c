"""One stream of an agent: what it says, when, and what it answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from llmgw.base.errors import Unreachable
from llmgw.model.catalog import PathSource
from llmgw.model.commands import (
    Accepted,
    ApplySettings,
    CancelRequest,
    Command,
    Declined,
    FetchWeights,
    LogsRead,
    ReadLogs,
    RemoveWeights,
    Reply,
    Request,
    StartShard,
    StopShard,
    WeightsRemoved,
    WeightsState,
)
from llmgw.model.link import (
    AgentControl,
    AgentMessage,
    CertificateIssued,
    CertificateRequest,
    Goodbye,
    Ping,
)
from llmgw.model.node import Filesystem, Heartbeat, Host, InstalledEngine, Inventory, WeightsHeld
from llmgw.model.settings import EngineBuild, EngineOrder, NodeSettings
from llmgw.model.shard import Progress, ShardStatus
from llmgw.model.weights import cache_name
from tests.fakes.agent import FakeAgent, MemoryStream, welcome
from tests.fakes.clock import FakeClock, settle
from tests.fakes.node import shard_spec
from tests.only import only


@pytest.fixture
def agent(clock: FakeClock) -> FakeAgent:
    return FakeAgent(clock)


def ordered(version: str) -> EngineOrder:
    return EngineOrder(builds=(EngineBuild(version=version),))


class Open:
    """A stream that an agent serves now."""

    def __init__(self, stream: MemoryStream, task: "asyncio.Task[float | None]") -> None:
        self.stream = stream
        self.task = task

    def kinds(self) -> list[str]:
        """Return what was sent since the last time, by the field that is set."""
        return [kind(message) for message in self.stream.take()]

    async def ask(self, request: Request | None, *, term: int = 1, id_: str = "c1") -> Reply:
        command = Command(term=term, id=id_, deadline=10.0, request=request)
        self.stream.take()
        self.stream.say(AgentControl(command=command))
        await settle()
        replies = [message.reply for message in self.stream.take() if message.reply is not None]
        return only(replies)


def kind(message: AgentMessage) -> str:
    return only([f for f in message.__struct_fields__ if getattr(message, f) is not None])


@asynccontextmanager
async def stream_of(agent: FakeAgent, **said: object) -> AsyncIterator[Open]:
    """Open a stream and welcome the agent on it."""
    stream = MemoryStream()
    task = asyncio.ensure_future(agent.core.session(stream))
    await settle()
    stream.say(welcome(**said))  # type: ignore[arg-type]
    await settle()
    yield Open(stream, task)
    if not task.done():
        stream.end()
    await task


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


async def test_a_start_is_handed_on_with_its_key_and_answered(agent: FakeAgent):
    async with stream_of(agent) as open_:
        reply = await open_.ask(StartShard(spec=shard_spec(), key="secret"))
        assert reply == Reply(id="c1", answer=Accepted())
        assert agent.shards.started == [(shard_spec(), "secret")]


async def test_what_is_declined_is_declined_in_words(agent: FakeAgent):
    async with stream_of(agent) as open_:
        answer = (await open_.ask(StopShard(replica="a-1"))).answer
        assert isinstance(answer, Declined)
        assert (answer.words, answer.not_found) == ("a-1/0: no such shard on this node", True)


async def test_a_command_that_fails_costs_its_own_answer_alone(agent: FakeAgent):
    agent.shards.failure = RuntimeError("no such luck")
    async with stream_of(agent) as open_:
        answer = (await open_.ask(StartShard(spec=shard_spec()))).answer
        assert isinstance(answer, Declined)
        assert "no such luck" in answer.words
        agent.shards.failure = None
        assert (await open_.ask(StartShard(spec=shard_spec()))).answer == Accepted()


async def test_a_request_of_a_newer_control_plane_is_declined_with_the_version(agent: FakeAgent):
    async with stream_of(agent) as open_:
        answer = (await open_.ask(None)).answer
        assert isinstance(answer, Declined)
        assert "llmgw 0.1.0" in answer.words


async def test_a_lower_term_is_refused_and_nothing_is_done(agent: FakeAgent):
    async with stream_of(agent, term=7) as open_:
        answer = (await open_.ask(StartShard(spec=shard_spec()), term=6)).answer
        assert isinstance(answer, Declined)
        assert answer.stale_term == 7
        assert "term 6" in answer.words
        assert agent.shards.started == []
        assert (await open_.ask(StartShard(spec=shard_spec()), term=8)).answer == Accepted()
        assert isinstance((await open_.ask(None, term=7)).answer, Declined)


async def test_the_highest_term_outlives_the_agent_and_is_told_at_register(clock: FakeClock):
    agent = FakeAgent(clock)
    async with stream_of(agent, term=3) as open_:
        await open_.ask(ReadLogs(), term=9)
    again = FakeAgent(clock)
    again.files.content = dict(agent.files.content)
    again.remembered._kept = again.remembered._read("lab")
    async with stream_of(again, term=3) as open_:
        register = open_.stream.take()[0].register
        assert register is not None
        assert register.highest_term == 9
        assert isinstance((await open_.ask(None, term=8)).answer, Declined)


async def test_settings_of_a_welcome_and_later_ones_reach_the_engines(agent: FakeAgent):
    first, second = ordered("1"), ordered("2")
    settings = NodeSettings(version=4, engines={"llamacpp": first})
    async with stream_of(agent, settings=settings) as open_:
        assert agent.engines.orders == [{"llamacpp": first}]
        newer = NodeSettings(version=5, engines={"llamacpp": second})
        assert (await open_.ask(ApplySettings(settings=newer))).answer == Accepted()
        older = NodeSettings(version=3, engines={})
        assert isinstance((await open_.ask(ApplySettings(settings=older))).answer, Accepted)
        assert agent.engines.orders[-1] == {"llamacpp": second}
        assert agent.remembered.engines == {"llamacpp": second}
    async with stream_of(agent) as open_:
        register = open_.stream.take()[0].register
        assert register is not None
        assert register.settings_version == 5


async def test_settings_that_say_nothing_of_engines_keep_what_was_there(agent: FakeAgent):
    order = ordered("1")
    settings = NodeSettings(version=4, engines={"llamacpp": order})
    async with stream_of(agent, settings=settings) as open_:
        await open_.ask(ApplySettings(settings=NodeSettings(version=5, heartbeat_interval=2.0)))
        assert agent.engines.orders[-1] == {"llamacpp": order}


async def test_a_full_disk_does_not_end_an_agent(agent: FakeAgent):
    async with stream_of(agent) as open_:
        agent.files.full = True
        assert (await open_.ask(StartShard(spec=shard_spec()), term=5)).answer == Accepted()
        assert isinstance((await open_.ask(None, term=4)).answer, Declined)


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


async def test_the_agents_last_lines_are_read_and_sources_named(agent: FakeAgent):
    from llmgw.base.log import LogRing

    agent.shards.rings["a-1/0"] = LogRing()
    agent.shards.rings["a-1/0"].add("loading")
    for number in range(5):
        agent.ring.add(f"line {number}")
    async with stream_of(agent) as open_:
        answer = (await open_.ask(ReadLogs(lines=2))).answer
        assert answer == LogsRead(lines=("line 3", "line 4"), sources=("a-1/0",))
        answer = (await open_.ask(ReadLogs(source="a-1/0"))).answer
        assert isinstance(answer, LogsRead)
        assert answer.lines == ("loading",)
        answer = (await open_.ask(ReadLogs(source="b-1/0", follow=True))).answer
        assert isinstance(answer, Declined)
        assert answer.not_found


async def test_a_log_is_followed_in_batches_until_it_is_cancelled(
    agent: FakeAgent, clock: FakeClock
):
    async with stream_of(agent, interval=60.0) as open_:
        await open_.ask(ReadLogs(follow=True), id_="f1")
        agent.ring.add("one")
        agent.ring.add("two")
        await clock.advance(0.25)
        lines = only(open_.stream.take()).log_lines
        assert lines is not None
        assert (lines.request, lines.lines, lines.dropped) == ("f1", ("one", "two"), 0)
        assert (await open_.ask(CancelRequest(request="f1"))).answer == Accepted()
        agent.ring.add("three")
        await clock.advance(1)
        assert open_.kinds() == []
        answer = (await open_.ask(CancelRequest(request="f1"))).answer
        assert isinstance(answer, Declined)
        assert answer.not_found


async def test_a_flood_of_lines_drops_the_oldest_and_says_how_many(
    agent: FakeAgent, clock: FakeClock
):
    async with stream_of(agent, interval=600.0) as open_:
        await open_.ask(ReadLogs(follow=True), id_="f1")
        for number in range(1500):
            agent.ring.add(f"line {number}")
        await clock.advance(0.25)
        first = only(open_.stream.take()).log_lines
        assert first is not None
        assert (first.lines[0], len(first.lines), first.dropped) == ("line 500", 200, 500)
        await clock.advance(2)
        rest = [m.log_lines for m in open_.stream.take() if m.log_lines is not None]
        assert sum(len(batch.lines) for batch in rest) == 800
        assert sum(batch.dropped for batch in rest) == 0


async def test_following_ends_with_the_stream(agent: FakeAgent, clock: FakeClock):
    async with stream_of(agent) as open_:
        await open_.ask(ReadLogs(follow=True))
    assert agent.ring._followers == set()


async def test_weights_in_use_by_a_shard_are_named_when_some_are_removed(agent: FakeAgent):
    spec = shard_spec("a-1")
    agent.shards.running = (ShardStatus(replica="a-1", state="ready", spec=spec),)
    async with stream_of(agent) as open_:
        answer = (await open_.ask(RemoveWeights(names=("w-1",)))).answer
        assert answer == WeightsRemoved(removed=("w-1",), refused=())
        assert spec.source is not None
        assert agent.weights.removals == [(("w-1",), frozenset({cache_name(spec.source)}))]


async def test_weights_are_checked_and_fetched_on_request(agent: FakeAgent):
    agent.weights.how_far = WeightsState(state="fetching", progress=Progress(words="downloading"))
    source = PathSource(path="/models/tiny.gguf")
    async with stream_of(agent) as open_:
        for check_only in (True, False):
            request = FetchWeights(source=source, check_only=check_only)
            assert (await open_.ask(request)).answer == agent.weights.how_far
        assert agent.weights.wanted == [(source, True), (source, False)]
        unknown = (await open_.ask(FetchWeights(source=None))).answer
        assert isinstance(unknown, Declined)
        assert "does not know that kind of source" in unknown.words


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


class Renewal:
    """A certificate that is due when the test says."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.issued: list[CertificateIssued] = []
        self.due_at = 40.0

    async def due(self) -> None:
        while (left := self.due_at - self.clock.monotonic()) > 0:
            await self.clock.sleep(left)

    async def pause(self) -> None:
        await self.clock.sleep(10)

    def request(self) -> CertificateRequest:
        return CertificateRequest(csr_pem="csr")

    def take(self, issued: CertificateIssued) -> None:
        self.issued.append(issued)
        self.due_at = 1000.0


async def test_a_certificate_is_renewed_over_the_stream_and_asked_for_again_if_need_be(
    clock: FakeClock,
):
    renewal = Renewal(clock)
    agent = FakeAgent(clock, renewal=renewal)
    async with stream_of(agent, interval=600.0) as open_:
        open_.stream.take()
        await clock.advance(39)
        assert open_.kinds() == []
        await clock.advance(1)
        assert open_.kinds() == ["certificate_request"]
        await clock.advance(10)
        assert open_.kinds() == ["certificate_request"]
        issued = CertificateIssued(certificate_pem="new", authority_pem="ca")
        open_.stream.say(AgentControl(certificate=issued))
        await clock.advance(100)
        assert renewal.issued == [issued]
        assert open_.kinds() == []


async def test_what_another_cluster_left_is_forgotten(clock: FakeClock):
    agent = FakeAgent(clock)
    async with stream_of(agent, term=9, control_planes=("a:7442",)):
        pass
    from llmgw_agent.remembered import Remembered
    from tests.fakes.agent import REMEMBERED

    other = Remembered(REMEMBERED, "other", agent.files)
    assert (other.term, other.control_planes) == (0, ())
    agent.files.content[REMEMBERED] = b"{"
    assert Remembered(REMEMBERED, "lab", agent.files).term == 0
