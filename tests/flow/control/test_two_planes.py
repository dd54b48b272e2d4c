"""Two control planes over one store: one leads, the other stands by and takes over."""

import httpx
import msgspec
import pytest

from llmgw.base.errors import Refused
from llmgw.control.api.app import build
from llmgw.control.asking import StaleTerm
from llmgw.control.leader import TTL
from llmgw.model.catalog import SIMULATED, Model, Profile
from llmgw.model.commands import Declined, StartShard, StopShard
from llmgw.model.fabric import Port
from llmgw.model.feed import MODELS, REPLICAS
from llmgw.model.gateway import GatewayRegister
from llmgw.model.keys import ADMIN
from llmgw.model.link import GatewayControl, GatewayMessage, Goodbye
from llmgw.model.node import READY
from tests.fakes.clock import settle
from tests.fakes.peer import MemoryStream, identity
from tests.fakes.planes import cpu_model, pass_time
from tests.fakes.scripted_agent import FakeAgent
from tests.flow.control.heads import STEP, Head, until


def goodbyes(agent: FakeAgent) -> list[Goodbye]:
    return [one.goodbye for one in agent.controls if one.goodbye is not None]


async def test_one_leads_and_the_other_names_it_to_agents_and_gateways(heads) -> None:
    first, second = heads
    assert (first.plane.leader, first.plane.term) == (True, 1)
    assert (second.plane.leader, second.plane.term) == (False, 0)
    agent = FakeAgent("n1")
    await agent.connect(second.plane.agents)
    await agent.gone()
    assert agent.welcomes == []
    assert goodbyes(agent) == [
        Goodbye(reason="cp-2 stands by: cp-1 leads under term 1", leader="cp-1:7442")
    ]
    gateway: MemoryStream[GatewayMessage, GatewayControl]
    gateway = MemoryStream(identity("gateway", "g1"), "g1:1")
    gateway.say(GatewayMessage(register=GatewayRegister(gateway="g1")))
    await second.plane.gateways.on_gateway(gateway)
    assert [one.goodbye.leader for one in gateway.sent if one.goodbye] == ["cp-1:7442"]
    await agent.connect(first.plane.agents)
    assert agent.welcomes[0].term == 1


async def test_a_killed_leader_is_replaced_and_what_runs_is_adopted(heads, clock) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    await first.plane.catalog.put(cpu_model(), None, actor="ana")
    await settle()
    (running,) = first.plane.fleet.replicas()
    assert running.state == READY
    await first.kill()
    await agent.sever()
    assert await until(clock, second) <= TTL * 4 / 3 + STEP
    assert second.plane.term == 2
    await agent.connect(second.plane.agents)
    assert agent.welcomes[-1].term == 2
    await pass_time(clock, 40, [agent])
    assert [one.id for one in second.plane.fleet.replicas()] == [running.id]
    assert len(agent.requests(StartShard)) == 1
    assert second.plane.key_of("x") == first.plane.key_of("x")


@pytest.mark.parametrize("dead", [0, 1])
async def test_half_of_a_replica_of_two_nodes_is_replaced_after_a_change_of_leader(
    heads, clock, dead: int
) -> None:
    first, second = heads
    agents = [FakeAgent(f"n{number}", devices=1) for number in range(1, 5)]
    port = Port(adapter="mlx5_0", number=1, state="4: ACTIVE", master_guid="0xa")
    for agent in agents:
        agent.inventory = msgspec.structs.replace(agent.inventory, ports=(port,))
        await agent.connect(first.plane.agents)
    profile = Profile(engine=SIMULATED, gpus=1, nodes=2)
    await first.plane.catalog.put(Model(name="wide", profiles=(profile,)), None, actor="ana")
    await settle()
    (old,) = first.plane.fleet.replicas()
    gone = next(agent for agent in agents if agent.node == old.shards[dead].node)
    left = next(agent for agent in agents if agent.node == old.shards[1 - dead].node)
    there = [agent for agent in agents if agent is not gone]
    await first.kill()
    await until(clock, second)
    for agent in there:
        await agent.connect(second.plane.agents)
    await pass_time(clock, 300, there)
    assert [one.id for one in second.plane.fleet.replicas()] == [old.id]
    assert left.requests(StopShard) == []  # its node may come back: the model says to wait
    await second.plane.membership.remove(gone.node, actor="ana")
    await pass_time(clock, 10, there)
    (stop,) = left.requests(StopShard)
    assert isinstance(stop, StopShard)
    assert (stop.replica, stop.rank) == (old.id, 1 - dead)
    (new,) = second.plane.fleet.replicas()
    assert (new.state, new.id != old.id) == (READY, True)
    assert gone.node not in [shard.node for shard in new.shards]


async def test_a_new_leader_waits_for_agents_before_it_starts_anything(heads, clock) -> None:
    first, second = heads
    one, other = FakeAgent("n1"), FakeAgent("n2")
    for agent in (one, other):
        await agent.connect(first.plane.agents)
    await first.kill()
    await until(clock, second)
    await second.plane.catalog.put(cpu_model(), None, actor="ana")
    await one.connect(second.plane.agents)
    await pass_time(clock, 10, [one], every=1)
    assert one.requests(StartShard) == []
    await pass_time(clock, 8, [one], every=1)
    assert len(one.requests(StartShard)) == 1


async def test_a_leader_without_its_store_stops_before_the_other_leads(heads, clock) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    first.away = True
    while not second.plane.leader:
        await clock.advance(STEP)
        assert not (first.plane.leader and second.plane.leader)
    assert not first.plane.leader
    assert not first.plane.agents.connected("n1")
    assert len(goodbyes(agent)) == 1
    with pytest.raises(StaleTerm, match="does not lead"):
        await first.plane.agents.ask("n1", StopShard(replica="r"))
    first.away = False
    await clock.advance(TTL)
    assert not first.plane.leader
    with pytest.raises(Refused, match="cp-1 stands by: cp-2 leads under term 2"):
        raise first.plane.elsewhere()
    assert second.events()[-1] == "cp-2 leads under term 2"


async def test_a_plan_of_an_earlier_term_is_not_carried_out(heads, clock) -> None:
    first, _ = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    first.plane.passes["reconcile"]._wanted = False
    term = first.plane.term
    await first.plane.leadership.saw(term + 3)
    with pytest.raises(StaleTerm, match="decided under term 1, and this is term 5"):
        await first.plane.agents.ask("n1", StopShard(replica="r"), term=term)
    assert agent.requests(StopShard) == []


async def test_a_leader_that_believes_too_long_is_refused_by_agents_and_steps_down(
    heads, clock
) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    first.plane.leadership._until = float("inf")  # as one that was frozen in the middle of a pass
    first.away = True
    await until(clock, second)
    assert first.plane.leader
    first.away = False
    agent.declines = Declined(words="a newer leader", stale_term=2)
    with pytest.raises(StaleTerm):
        await first.plane.agents.ask("n1", StopShard(replica="r"))
    assert not first.plane.leader
    assert agent.commands[-1].term == 1
    assert not first.plane.agents.connected("n1")
    assert second.plane.term == 2


async def test_what_one_was_told_the_other_knows_after_it_took_over(heads, clock) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    await first.plane.settings.put("link.lost_after", 90.0, actor="ana")
    await first.plane.catalog.put(cpu_model("kept"), None, actor="ana")
    _, text = await first.plane.tokens.make(ADMIN, "root", actor="ana")
    key, _ = await first.plane.keys.make("bo", actor="ana")
    await first.plane.membership.set_wish("n1", "cordoned", actor="ana")
    await first.plane.close()
    await first.kill()
    assert await until(clock, second) <= TTL / 3 + STEP
    plane = second.plane
    assert plane.settings.current.settings.link.lost_after == 90.0
    assert plane.catalog.get("kept") is not None
    assert plane.tokens.who(text) is not None
    assert plane.keys.get(key.id) == key
    assert [(node.id, node.wish) for node in plane.fleet.nodes()] == [("n1", "cordoned")]
    stored = await plane.settings.put("link.lost_after", 80.0, actor="bo")
    assert stored.version == 2
    assert await plane.store.verify_audit() is None


async def test_a_standby_reads_what_the_leader_writes_and_changes_nothing(heads, clock) -> None:
    first, second = heads
    await first.plane.settings.put("link.lost_after", 90.0, actor="ana")
    await first.plane.catalog.put(cpu_model("new"), None, actor="ana")
    await clock.advance(TTL / 3 + STEP)
    assert second.plane.settings.current == first.plane.settings.current
    assert [entry.model.name for entry in second.plane.catalog.entries()] == ["new"]
    await first.plane.catalog.remove("new", actor="ana")
    await clock.advance(TTL / 3 + STEP)
    assert second.plane.catalog.entries() == ()
    with pytest.raises(Refused, match="cp-1 leads under term 1"):
        await second.plane.settings.put("link.lost_after", 20.0, actor="eve")
    assert second.plane.settings.current == first.plane.settings.current


async def test_nodes_are_not_lost_to_a_standby_that_hears_none(heads, clock) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    await pass_time(clock, 200, [agent])
    assert [(node.id, node.liveness) for node in second.plane.fleet.nodes()] == [("n1", None)]
    assert [one for one in second.plane.events.recent() if "lost" in one.words] == []


async def test_a_follower_lists_anew_when_the_leader_changes(heads, clock) -> None:
    first, second = heads
    await first.plane.catalog.put(cpu_model("m"), None, actor="ana")
    await clock.advance(TTL / 3 + STEP)
    before = second.plane.epoch
    with second.plane.feed.follow([MODELS, REPLICAS]) as follower:
        batch = await anext(follower)
        assert (batch.position.epoch, batch.listing) == (before, True)
        await first.kill()
        await until(clock, second)
        assert second.plane.epoch != before
        batch = follower.take()
        assert batch is not None
        assert (batch.position.epoch, batch.listing) == (second.plane.epoch, True)
        assert [change.id for change in batch.changes] == ["m"]


async def test_who_leads_again_knows_only_what_is_true_by_then(heads, clock) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    await agent.connect(first.plane.agents)
    await first.plane.catalog.put(cpu_model("old"), None, actor="ana")
    await settle()
    assert len(first.plane.fleet.replicas()) == 1
    first.away = True
    await until(clock, second)
    first.away = False
    await agent.connect(second.plane.agents)
    await second.plane.catalog.remove("old", actor="bo")
    await pass_time(clock, 30, [agent])
    assert agent.shards == {}
    await second.plane.close()
    await second.kill()
    assert await until(clock, first) <= TTL / 3 + STEP
    assert first.plane.term == 3
    assert first.plane.catalog.entries() == ()
    assert first.plane.fleet.replicas() == ()
    await agent.connect(first.plane.agents)
    await pass_time(clock, 30, [agent])
    assert first.plane.fleet.replicas() == ()
    assert first.plane.passes["reconcile"].last is not None
    assert len(agent.requests(StartShard)) == 1


async def test_who_leads_again_holds_nothing_for_what_it_once_sent(heads, clock) -> None:
    first, second = heads
    agent = FakeAgent("n1")
    agent.silent = True
    await agent.connect(first.plane.agents)
    await first.plane.catalog.put(cpu_model("m"), None, actor="ana")
    await settle()
    (room,) = first.plane.fleet.observed().nodes
    assert len(room.bookings) == 1
    first.away = True
    await until(clock, second)
    first.away = False
    await second.plane.catalog.remove("m", actor="bo")
    await second.plane.close()
    await second.kill()
    await until(clock, first)
    (room,) = first.plane.fleet.observed().nodes
    assert (room.node.id, room.bookings) == ("n1", ())


async def test_only_the_leader_answers_200_and_a_standby_says_who_to_ask(heads, clock) -> None:
    first, second = heads
    _, text = await first.plane.tokens.make(ADMIN, "root", actor="ana")
    await clock.advance(TTL / 3 + STEP)

    async def ask(head: Head, method: str, path: str, **more: object) -> httpx.Response:
        transport = httpx.ASGITransport(app=build(head.plane))
        headers = {"Authorization": f"Bearer {text}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://cp") as http:
            return await http.request(method, path, headers=headers, **more)  # type: ignore[arg-type]

    change = {"path": "link.lost_after", "value": 90.0}
    for leader, standby in ((first, second), (second, first)):
        assert (await ask(leader, "GET", "/leader")).status_code == 200
        assert (await ask(standby, "GET", "/leader")).status_code == 503
        shown = (await ask(standby, "GET", "/api/v1/settings")).json()
        assert shown == (await ask(leader, "GET", "/api/v1/settings")).json()
        refused = await ask(standby, "PUT", "/api/v1/settings", json=change)
        assert refused.status_code == 503
        told = refused.json()["error"]
        assert (told["code"], told["hint"]) == ("not_leader", f"ask {leader.plane.server_id}")
        status = (await ask(standby, "GET", "/api/v1/status")).json()
        assert told["message"] in {problem["words"] for problem in status["problems"]}
        assert (await ask(leader, "PUT", "/api/v1/settings", json=change)).status_code == 200
        await clock.advance(TTL / 3 + STEP)
        if leader is first:
            first.away = True
            await until(clock, second)
            first.away = False
            await clock.advance(TTL)
