"""One machine that says too much: it is cut short, told of once, and hides nobody else."""

import msgspec
import pytest

from llmgw.control.events import AT_ONCE, ONE_EACH, Events
from llmgw.control.failures import MOST_MODELS, Failures
from llmgw.control.feed import Feed
from llmgw.control.plane import Plane
from llmgw.control.shards import MOST_SHARDS
from llmgw.control.traffic import MOST_WORKERS, Traffic
from llmgw.control.writing import Writing
from llmgw.model.device import DeviceHealth, Xid
from llmgw.model.events import PROBLEM, WARNING
from llmgw.model.gateway import EndpointDown, ModelTraffic, TrafficReport
from llmgw.model.link import GatewayMessage
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw.model.shard import ShardSpec, ShardStatus
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened
from tests.fakes.scripted_agent import FakeAgent
from tests.unit.control.calling import Caller


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock)


def told(plane: Plane, words: str) -> list[str]:
    return [one.words for one in plane.events.recent() if words in one.words]


def too_many_xids(sequence: int) -> Heartbeat:
    xids = tuple(Xid(code=code, count=sequence) for code in range(3000))
    return Heartbeat(sequence=sequence, health=(DeviceHealth(uuid="GPU-0", xids=xids),))


async def test_what_is_cut_is_told_once_and_is_a_trouble_until_the_agent_starts_anew(
    plane: Plane,
) -> None:
    agent = FakeAgent("gpu-01")
    async with opened(plane):
        await agent.connect(plane.agents)
        for sequence in range(1, 6):
            agent.say(heartbeat=too_many_xids(sequence))
        await settle()
        sample = plane.fleet.sample("gpu-01")
        assert sample is not None
        (health,) = sample.heartbeat.health or ()
        assert len(health.xids or ()) == 128
        words = "says more than is kept, the rest is cut: heartbeat.health.xids (at most 128)"
        assert told(plane, words) == [f"gpu-01 {words}"]
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert words in node.health
        # The same agent comes back over another stream, then a new one.
        await agent.connect(plane.agents)
        agent.say(heartbeat=too_many_xids(9))
        await settle()
        assert len(told(plane, words)) == 1
        agent.boot = "agent-2"
        plane.agents.cut("other", "no matter")
        agent.stream.hang_up()
        await settle()
        await agent.connect(plane.agents)
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert words not in node.health


async def test_a_megabyte_of_words_reaches_neither_events_nor_the_node(plane: Plane) -> None:
    agent = FakeAgent("gpu-01")
    async with opened(plane):
        await agent.connect(plane.agents)
        warnings = tuple(NodeWarning(subject="s", words=f"{n}" + "x" * 100_000) for n in range(60))
        agent.say(inventory=Inventory(warnings=()))
        agent.say(inventory=Inventory(warnings=warnings))
        await settle()
        node = plane.fleet.node("gpu-01")
        assert node is not None
        assert len(msgspec.json.encode(node)) < 60 * 10_000
        assert max(len(one.words) for one in plane.events.recent()) <= 4096
        assert any(one.words.endswith("…") for one in plane.events.recent())


def events(clock: FakeClock) -> Events:
    return Events(MemoryStore(), clock, Feed("e", clock), Writing(clock))


async def test_a_machine_that_causes_too_many_events_is_told_of_and_hides_no_other(
    clock: FakeClock,
) -> None:
    kept = events(clock)
    kept.add("node", "quiet", "quiet says this")
    for number in range(5000):
        kept.add("node", "loud", f"loud {number}")
        kept.add("replica", f"r{number}", "starts and stops", source="loud")
    words = [one.words for one in kept.recent()]
    assert len(words) == AT_ONCE + 2
    assert words[0] == "quiet says this"
    assert words[-1] == "loud causes too many events: further ones are not told for a while"
    kept.add("node", "quiet", "quiet again")
    kept.add("node", "loud", "loud is lost", severity=PROBLEM)
    kept.add("placement", "r1", "placed")
    assert [one.words for one in kept.recent()][-3:] == ["quiet again", "loud is lost", "placed"]


async def test_once_it_is_quieter_its_events_are_told_again_and_how_many_were_not(
    clock: FakeClock,
) -> None:
    kept = events(clock)
    for number in range(AT_ONCE + 50):
        kept.add("node", "loud", f"loud {number}", severity=WARNING)
    await clock.advance(ONE_EACH * AT_ONCE / 4)
    kept.add("node", "loud", "too soon")
    await clock.advance(ONE_EACH * AT_ONCE / 4)
    kept.add("node", "loud", "heard")
    assert [one.words for one in kept.recent()][-2:] == ["loud: 51 events were not told", "heard"]


async def test_shards_of_one_node_are_bounded_and_those_that_are_over_give_way(
    plane: Plane,
) -> None:
    agent = FakeAgent("gpu-01")
    async with opened(plane):
        await agent.connect(plane.agents)
        agent.say(shard=ShardStatus(replica="over", state="failed"))
        for number in range(MOST_SHARDS + 20):
            agent.say(shard=ShardStatus(replica=f"r{number}", state="ready"))
        await settle()
        replicas = {one.id for one in plane.fleet.replicas()}
        assert len(replicas) == MOST_SHARDS
        assert "r0" in replicas
        assert "over" not in replicas
        assert f"r{MOST_SHARDS}" not in replicas


async def test_failed_shards_of_ever_new_models_are_registered_at_once(plane: Plane) -> None:
    def failed(number: int) -> ShardStatus:
        spec = ShardSpec(
            replica=f"r{number}", model=f"m{number}", profile="p", fingerprint="f", engine="vllm"
        )
        return ShardStatus(replica=f"r{number}", state="failed", spec=spec)

    agent = FakeAgent("gpu-01")
    agent.shards = {(f"r{number}", 0): failed(number) for number in range(MOST_SHARDS)}
    async with opened(plane):
        await agent.connect(plane.agents)
        assert len(plane.fleet.replicas()) == MOST_SHARDS


def test_failures_are_counted_for_so_many_models_of_a_node() -> None:
    failures = Failures()
    failures.note("tiny", "other", "it died", 0.0)
    for number in range(2 * MOST_MODELS):
        failures.note(f"m{number}", "gpu-01", "it died", float(number))
    kept = [one.model for one in failures.all() if one.node == "gpu-01"]
    assert len(kept) == MOST_MODELS
    assert f"m{2 * MOST_MODELS - 1}" in kept
    assert [one.model for one in failures.all() if one.node == "other"] == ["tiny"]


def test_workers_of_ever_new_boots_are_added_up_and_no_sum_falls() -> None:
    traffic = Traffic()
    for number in range(2 * MOST_WORKERS):
        model = ModelTraffic(model="tiny", prompt_tokens=1)
        report = TrafficReport(gateway="g", boot=f"b{number}", worker=0, models=(model,))
        traffic.take(report)
    assert len(traffic.reports()) == MOST_WORKERS
    traffic.written(traffic.unwritten())
    assert traffic.by_model()["tiny"].prompt_tokens == 2 * MOST_WORKERS


async def test_a_gateway_that_can_t_reach_ever_new_engines_is_told_of_to_a_bound(
    plane: Plane,
) -> None:
    async with opened(plane):
        gateway = await Caller(plane).register()
        for number in range(2000):
            down = EndpointDown(replica=f"r{number}", words="w" * 10_000)
            gateway.stream.say(GatewayMessage(endpoint_down=down))
        await settle()
        assert len(plane.gateways._troubles._down) <= 256
        assert len(told(plane, "can't reach it")) <= AT_ONCE
        cut = "says more than is kept, the rest is cut: endpoint_down.words"
        assert len(told(plane, cut)) == 1
