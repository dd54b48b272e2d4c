"""Agents' streams: who may speak, two machines with one id, asking and its four ends, renewal."""

import asyncio

import pytest

from llmgw.base.errors import Conflict, NotFound, Refused, TimedOut, Unreachable
from llmgw.control.plane import Plane
from llmgw.link.enrol import make_key_and_csr
from llmgw.model.commands import (
    ApplySettings,
    CancelRequest,
    Declined,
    LogLines,
    LogsRead,
    ReadLogs,
    RemoveWeights,
    Reply,
    StopShard,
)
from llmgw.model.link import AgentMessage, CertificateRequest
from llmgw.model.node import READY, Heartbeat
from llmgw.model.settings import LinkSettings
from llmgw.store.interface import Lease
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import MemoryStream, identity
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent

STOP = StopShard(replica="tiny-aaa111")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def health(plane: Plane, node: str) -> tuple[str, ...]:
    known = plane.fleet.node(node)
    assert known is not None
    return known.health


# Who may speak.


async def test_an_agent_speaks_for_the_id_of_its_certificate_alone(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        stream: MemoryStream = MemoryStream(identity("node", "n2"), "10.0.0.9:1")  # type: ignore[type-arg]
        stream.say(AgentMessage(register=agent.register()))
        with pytest.raises(
            Refused, match="the certificate is for node n2, and the message says 'n1'"
        ):
            await plane.agents.on_agent(stream)
        assert plane.fleet.nodes() == ()


async def test_the_first_message_is_register(plane: Plane) -> None:
    async with opened(plane):
        stream: MemoryStream = MemoryStream(identity("node", "n1"), "10.0.0.9:1")  # type: ignore[type-arg]
        stream.say(AgentMessage(heartbeat=Heartbeat(sequence=1)))
        with pytest.raises(Refused, match="first message of an agent is Register"):
            await plane.agents.on_agent(stream)


async def test_a_second_register_on_one_stream_ends_it(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.say(register=agent.register())
        await agent.gone()
        assert isinstance(agent.ended, Refused)
        assert not plane.agents.connected("n1")


async def test_a_higher_term_that_an_agent_knows_is_topped(
    plane: Plane, store: MemoryStore
) -> None:
    async with opened(plane):
        assert plane.term == 1
        agent = FakeAgent("n1")
        agent.highest_term = 41
        await agent.connect(plane.agents)
        assert plane.term == 42
        assert agent.welcomes[-1].term == 42
        assert store.term == 42


async def test_a_node_that_is_removed_while_it_registers_stays_out(
    plane: Plane, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.highest_term = 40
        take = store.take_term

        async def removed_meanwhile(lease: Lease, seen: int) -> Lease:
            plane.certificates.deny((agent.serial,))
            return await take(lease, seen)

        monkeypatch.setattr(store, "take_term", removed_meanwhile)
        await agent.connect(plane.agents)
        await agent.gone()
        assert isinstance(agent.ended, Refused)
        assert "was removed" in agent.ended.message
        assert plane.fleet.nodes() == ()


# Two machines, one id.


@pytest.mark.parametrize(
    ("serial", "machine"), [("another", "boot-1"), (None, "boot-2"), ("another", "boot-2")]
)
async def test_another_machine_with_the_same_id_is_refused_and_both_are_named(
    plane: Plane, serial: str | None, machine: str
) -> None:
    async with opened(plane):
        first = FakeAgent("n1", peer="10.0.0.1:5")
        stream = await first.connect(plane.agents)
        second = FakeAgent("n1", serial=serial, machine=machine, peer="10.0.0.2:6")
        await second.connect(plane.agents)
        await second.gone()
        assert isinstance(second.ended, Refused)
        assert "10.0.0.1:5 keeps the id, 10.0.0.2:6 is another machine" in second.ended.message
        assert second.welcomes == []
        assert stream.aborted is None
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.peer == "10.0.0.1:5"
        assert node.health == (
            "two machines use this id: 10.0.0.1:5 is connected, 10.0.0.2:6 was refused",
        )
        told = [one.notice.words for one in first.controls if one.notice is not None]
        assert told == [f"n1: {node.health[0]}"]
        first.beat()
        await settle()
        assert plane.fleet.sample("n1") is not None


async def test_a_refused_machine_that_tries_again_and_again_is_told_of_once(plane: Plane) -> None:
    async with opened(plane):
        first = FakeAgent("n1")
        await first.connect(plane.agents)
        for port in range(5):
            await FakeAgent("n1", machine="boot-2", peer=f"10.0.0.2:{port}").connect(plane.agents)
        await FakeAgent("n1", machine="boot-3", peer="10.0.0.3:1").connect(plane.agents)
        told = [event.words for event in plane.events.recent() if "two machines" in event.words]
        assert len(told) == 2
        assert len([one for one in first.controls if one.notice is not None]) == 2


async def test_the_clash_leaves_the_view_when_the_other_machine_stays_away(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        first = FakeAgent("n1")
        await first.connect(plane.agents)
        await FakeAgent("n1", machine="boot-2").connect(plane.agents)
        await pass_time(clock, 110, [first])
        assert health(plane, "n1") != ()
        await pass_time(clock, 20, [first])
        assert health(plane, "n1") == ()


async def test_two_agents_of_one_copied_directory_are_two_machines(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        first = FakeAgent("n1", peer="10.0.0.1:5")
        stream = await first.connect(plane.agents)
        first.reports(spec_of(cpu_model(), "tiny-aaa111"))
        await pass_time(clock, 60, [first])
        copy = FakeAgent("n1", peer="10.0.0.1:6")
        copy.boot = "agent-2"
        await copy.connect(plane.agents)
        await copy.gone()
        assert isinstance(copy.ended, Refused)
        assert "10.0.0.1:5 keeps the id, 10.0.0.1:6 is another" in copy.ended.message
        assert stream.aborted is None
        assert [one.id for one in plane.fleet.replicas()] == ["tiny-aaa111"]
        assert "two machines use this id" in health(plane, "n1")[0]


@pytest.mark.parametrize("how", ["closed", "cut without a word", "cannot say"])
async def test_a_restarted_agent_takes_the_place_of_the_one_that_is_gone(
    plane: Plane, clock: FakeClock, how: str
) -> None:
    async with opened(plane):
        first = FakeAgent("n1")
        await first.connect(plane.agents)
        await pass_time(clock, 20, [first])
        if how == "closed":
            await first.sever()
        if how == "cut without a word":
            await pass_time(clock, 10)
        again = FakeAgent("n1")
        again.boot = None if how == "cannot say" else "agent-2"
        await again.connect(plane.agents)
        assert again.ended is None
        assert len(again.welcomes) == 1
        assert health(plane, "n1") == ()


async def test_the_newest_stream_of_the_same_machine_wins(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        old = await agent.connect(plane.agents)
        agent.peer = "n1:50002"
        new = await agent.connect(plane.agents)
        assert old.aborted == "n1 opened a newer stream from n1:50002"
        assert new.aborted is None
        node = plane.fleet.node("n1")
        assert node is not None
        assert (node.peer, node.connected) == ("n1:50002", True)
        assert plane.agents.opened == 2


async def test_a_machine_that_is_gone_leaves_its_id_to_another(plane: Plane) -> None:
    async with opened(plane):
        first = FakeAgent("n1")
        await first.connect(plane.agents)
        await first.sever()
        second = FakeAgent("n1", serial="another", machine="boot-2")
        await second.connect(plane.agents)
        assert len(second.welcomes) == 1


async def test_a_stream_with_the_renewed_certificate_is_the_same_machine(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        stream = await agent.connect(plane.agents)
        _, csr = make_key_and_csr("node", "n1", "llmgw")
        agent.say(certificate_request=CertificateRequest(csr_pem=csr))
        await settle()
        assert stream.identity is not None
        agent.serial = stream.identity.serial
        await agent.connect(plane.agents)
        assert len(agent.welcomes) == 2


# Renewal and removal.


async def test_a_certificate_is_renewed_over_the_live_stream(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with opened(plane):
        await plane.settings.put("certificates.lifetime", 60.0, actor="me")
        agent = FakeAgent("n1")
        stream = await agent.connect(plane.agents)
        _, csr = make_key_and_csr("node", "n1", "llmgw")
        agent.say(certificate_request=CertificateRequest(csr_pem=csr))
        await settle()
        issued = agent.controls[-1].certificate
        assert issued is not None
        assert issued.authority_pem == plane.authority.certificate_pem
        kept = next(iter(store.certificates.values()))
        assert (kept.role, kept.subject, kept.ends) == ("node", "n1", clock.now() + 60)
        assert stream.identity is not None
        assert (stream.identity.serial, stream.identity.ends) == (kept.serial, kept.ends)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.certificate_ends == clock.now() + 60
        assert node.certificate_begins == clock.now() - 30


async def test_a_request_for_somebody_else_is_not_signed(plane: Plane, store: MemoryStore) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        _, csr = make_key_and_csr("server", "n1", "llmgw")
        agent.say(certificate_request=CertificateRequest(csr_pem=csr))
        await settle()
        assert agent.controls[-1].certificate is None
        assert store.certificates == {}
        assert plane.agents.connected("n1")


async def test_a_removed_node_is_cut_told_and_never_let_in_again(plane: Plane) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        agent.runs(spec_of(cpu_model(), "tiny-aaa111"))
        stream = await agent.connect(plane.agents)
        _, csr = make_key_and_csr("node", "n1", "llmgw")
        agent.say(certificate_request=CertificateRequest(csr_pem=csr))
        await settle()
        assert stream.identity is not None
        agent.serial = stream.identity.serial
        await plane.membership.remove("n1", actor="ada")
        await agent.gone()
        assert stream.refused is not None
        assert stream.refused.message == "n1 was removed from the cluster by ada"
        assert (plane.fleet.nodes(), plane.fleet.replicas()) == ((), ())
        await agent.connect(plane.agents)
        await agent.gone()
        assert isinstance(agent.ended, Refused)
        assert "its certificate is denied" in agent.ended.message
        assert plane.fleet.nodes() == ()


async def test_what_a_cut_agent_says_afterwards_is_not_taken(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        stream = await agent.connect(plane.agents)
        stream.say(AgentMessage(heartbeat=Heartbeat(sequence=1)))
        plane.agents.cut("n1", "because")
        await agent.gone()
        assert plane.fleet.sample("n1") is None


# Asking.


async def test_a_request_carries_term_id_and_deadline_and_gets_its_answer(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        answer = await plane.agents.ask("n1", ReadLogs(lines=1))
        assert answer == LogsRead(lines=("second line",), sources=("agent",))
        command = agent.commands[-1]
        assert (command.term, command.deadline) == (plane.term, 10.0)
        await plane.agents.ask("n1", ReadLogs(lines=1), deadline=3.0)
        assert agent.commands[-1].deadline == 3.0
        assert agent.commands[-1].id != command.id


async def test_an_unknown_node_is_not_found_and_a_gone_one_unreachable(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        with pytest.raises(NotFound, match="no node 'n1'"):
            await plane.agents.ask("n1", STOP)
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await agent.sever()
        await clock.advance(20)
        with pytest.raises(Unreachable, match=r"n1 has no stream .* last heard 20s ago"):
            await plane.agents.ask("n1", STOP)


async def test_a_request_is_not_sent_to_an_agent_that_does_not_list_its_feature(
    plane: Plane,
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.version = "0.0.9"
        await agent.connect(plane.agents)
        with pytest.raises(Refused) as refused:
            await plane.agents.ask("n1", RemoveWeights(names=("a", "b")))
        assert refused.value.message == (
            "n1 runs llmgw 0.0.9, which can't remove 2 sets of weights: "
            "llmgw 0.2.0 has 'remove_weights'"
        )
        assert agent.commands == []


async def test_an_agent_that_cannot_say_its_features_is_asked_nothing(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", features=None)
        await agent.connect(plane.agents)
        with pytest.raises(Refused):
            await plane.agents.ask("n1", STOP)
        assert agent.commands == []


async def test_an_agent_that_does_not_answer_is_stuck_until_it_answers_anything(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.silent = True
        await agent.connect(plane.agents)
        asking = asyncio.ensure_future(plane.agents.ask("n1", STOP))
        await clock.advance(9.9)
        assert not asking.done()
        await clock.advance(0.2)
        with pytest.raises(TimedOut) as stuck:
            await asking
        assert stuck.value.message == (
            "n1 (llmgw 0.1.0) is stuck: asked to stop tiny-aaa111/0 10s ago, no answer"
        )
        assert health(plane, "n1") == ("is stuck (llmgw 0.1.0): does not answer requests",)
        agent.say(reply=Reply(id=agent.commands[-1].id, answer=None))
        await settle()
        assert health(plane, "n1") == ()


async def test_a_request_ends_with_its_stream(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.silent = True
        await agent.connect(plane.agents)
        asking = asyncio.ensure_future(plane.agents.ask("n1", STOP))
        await settle()
        await agent.sever()
        with pytest.raises(Unreachable, match="the stream of n1 ended before it could stop"):
            await asking


async def test_an_answer_of_another_stream_does_not_count(plane: Plane, clock: FakeClock) -> None:
    async with opened(plane):
        one, other = FakeAgent("n1"), FakeAgent("n2")
        one.silent = True
        await one.connect(plane.agents)
        await other.connect(plane.agents)
        asking = asyncio.ensure_future(plane.agents.ask("n1", STOP))
        await settle()
        other.say(reply=Reply(id=one.commands[-1].id, answer=Declined(words="no")))
        await clock.advance(11)
        with pytest.raises(TimedOut):
            await asking


async def test_a_refusal_comes_in_the_nodes_own_words(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.declines = Declined(words="no such shard", not_found=True)
        with pytest.raises(NotFound, match="n1: no such shard"):
            await plane.agents.ask("n1", STOP)
        agent.declines = Declined(words="the disk is full", hint="free some")
        with pytest.raises(Refused, match="n1: the disk is full") as refused:
            await plane.agents.ask("n1", STOP)
        assert refused.value.hint == "free some"


async def test_a_stale_term_is_raised_above_the_one_that_the_agent_knows(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.declines = Declined(words="stale", stale_term=9)
        with pytest.raises(Refused, match="knows a newer leader"):
            await plane.agents.ask("n1", STOP)
        assert plane.term == 10
        agent.declines = None
        await plane.agents.ask("n1", STOP)
        assert agent.commands[-1].term == 10


async def test_a_control_plane_that_does_not_lead_commands_nobody(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        plane.leadership.resign()
        with pytest.raises(Refused, match="does not lead"):
            await plane.agents.ask("n1", STOP)
        assert agent.commands == []


# Logs.


async def test_a_log_is_followed_until_the_reader_stops(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        following = plane.agents.follow_logs("n1", lines=1)
        assert (await anext(following)).lines == ("second line",)
        agent.follows("third line", dropped=2)
        assert (await anext(following)).lines == ("third line",)
        request = agent.commands[-1].id
        await following.aclose()
        assert agent.requests(CancelRequest) == [CancelRequest(request=request)]
        agent.say(log_lines=LogLines(request=request, lines=("nobody reads this",)))
        await settle()
        assert plane.agents.connected("n1")


async def test_a_slow_reader_of_a_log_loses_the_oldest_lines_and_is_told_how_many(
    plane: Plane,
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        following = plane.agents.follow_logs("n1")
        await anext(following)
        for number in range(2500):
            agent.follows(f"line {number}")
        await settle()
        piece = await anext(following)
        assert (len(piece.lines), piece.dropped, piece.lines[-1]) == (2000, 500, "line 2499")


async def test_following_ends_with_the_stream(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        following = plane.agents.follow_logs("n1")
        await anext(following)
        await agent.sever()
        with pytest.raises(Unreachable, match="the stream of n1 ended"):
            await anext(following)


# Heartbeats and settings.


async def test_each_heartbeat_is_answered_with_a_ping(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        for _ in range(3):
            agent.beat()
        await settle()
        pings = [one.ping.number for one in agent.controls if one.ping is not None]
        assert pings == [1, 2, 3]


async def test_changed_settings_reach_one_node_a_second(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agents = [FakeAgent(f"n{number}") for number in range(3)]
        for agent in agents:
            await agent.connect(plane.agents)
        await plane.settings.put("serving.stopped", True, actor="me")
        await pass_time(clock, 3, agents, every=1)
        assert [agent.requests(ApplySettings) for agent in agents] == [[], [], []]
        await plane.settings.put("link.heartbeat_interval", 2.0, actor="me")
        await settle()
        counts = []
        for _ in range(4):
            counts.append(sum(len(agent.requests(ApplySettings)) for agent in agents))
            await pass_time(clock, 1, agents, every=1)
        assert counts == [1, 2, 3, 3]
        streams = [agent.stream for agent in agents]
        assert [stream.interval for stream in streams if stream is not None] == [2.0, 2.0, 2.0]


async def test_an_agent_that_does_not_answer_keeps_no_other_from_its_settings(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        stuck, old, fine = FakeAgent("a"), FakeAgent("b", features=("shards",)), FakeAgent("c")
        stuck.silent = True
        for agent in (stuck, old, fine):
            await agent.connect(plane.agents)
        await plane.settings.put("link.heartbeat_interval", 2.0, actor="me")
        await pass_time(clock, 30, [stuck, old, fine], every=1)
        assert len(fine.requests(ApplySettings)) == 1
        assert len(stuck.requests(ApplySettings)) >= 2
        assert old.requests(ApplySettings) == []


async def test_an_agent_learns_the_settings_in_its_welcome(plane: Plane) -> None:
    async with running(plane):
        await plane.settings.put("link.heartbeat_interval", 1.0, actor="me")
        agent = FakeAgent("n1")
        stream = await agent.connect(plane.agents)
        welcome = agent.welcomes[0]
        assert (welcome.heartbeat_interval, stream.interval) == (1.0, 1.0)
        assert welcome.settings is not None
        assert welcome.settings.version == 1
        assert welcome.lost_after == LinkSettings().lost_after
        assert agent.requests(ApplySettings) == []


async def test_settings_at_another_version_are_a_conflict(plane: Plane) -> None:
    async with opened(plane):
        await plane.settings.put("link.lost_after", 90.0, actor="me")
        with pytest.raises(Conflict, match="at version 1, not 0"):
            await plane.settings.put("link.lost_after", 80.0, actor="me", expected=0)


async def test_a_store_that_is_away_keeps_no_node_out(
    plane: Plane, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(node: object) -> None:
        raise Unreachable("the store is away")

    async with opened(plane):
        monkeypatch.setattr(store, "put_node", away)
        await FakeAgent("n1").connect(plane.agents)
        node = plane.fleet.node("n1")
        assert node is not None
        assert node.liveness == READY
