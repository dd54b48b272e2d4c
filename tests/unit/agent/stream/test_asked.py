"""What an agent answers over its stream: commands, settings, logs, weights, certificates."""

import pytest

from llmgw.model.catalog import PathSource
from llmgw.model.commands import (
    Accepted,
    ApplySettings,
    CancelRequest,
    Declined,
    FetchWeights,
    LogsRead,
    ReadLogs,
    RemoveWeights,
    Reply,
    StartShard,
    StopShard,
    WeightsRemoved,
    WeightsState,
)
from llmgw.model.link import AgentControl, CertificateIssued, CertificateRequest
from llmgw.model.settings import EngineBuild, EngineOrder, NodeSettings
from llmgw.model.shard import Progress, ShardStatus
from llmgw.model.weights import cache_name
from tests.fakes.agent import FakeAgent
from tests.fakes.clock import FakeClock
from tests.fakes.node import shard_spec
from tests.only import only
from tests.unit.agent.stream.opened import stream_of


@pytest.fixture
def agent(clock: FakeClock) -> FakeAgent:
    return FakeAgent(clock)


def ordered(version: str) -> EngineOrder:
    return EngineOrder(builds=(EngineBuild(version=version),))


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
