"""Agents' streams: who may speak, two machines with one id, renewal, removal."""

import pytest

from llmgw.base.errors import Refused
from llmgw.control.plane import Plane
from llmgw.link.enrol import make_key_and_csr
from llmgw.model.commands import LogsRead, ReadLogs
from llmgw.model.link import AgentMessage, CertificateRequest
from llmgw.model.node import Heartbeat
from llmgw.store.interface import Lease
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import MemoryStream, identity
from tests.fakes.planes import cpu_model, health, make_plane, opened, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


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
