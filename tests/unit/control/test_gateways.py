"""Gateways' streams: routes, keys and settings down and nothing else; usage and traffic up."""

import asyncio

import pytest

from llmgw.base.errors import Refused, Unreachable
from llmgw.control.plane import Plane
from llmgw.control.writing import USAGE
from llmgw.link.enrol import make_key_and_csr
from llmgw.model.feed import (
    KEYS,
    NODES,
    ROUTES,
    SETTINGS,
    ConfigChange,
    Position,
    RouteChange,
)
from llmgw.model.gateway import QUOTAS, REACHED, EndpointDown, GatewayRegister
from llmgw.model.keys import (
    QuotaFigures,
    QuotaGrant,
    QuotaReport,
    QuotaUse,
    UsageReport,
    UsageTotals,
)
from llmgw.model.link import CertificateRequest, GatewayControl, GatewayMessage, UsageTaken
from llmgw.model.shard import READY
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import MemoryStream, identity
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent
from tests.unit.control.calling import Caller

FOLLOWS = (ROUTES, KEYS, SETTINGS)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


async def test_a_gateway_is_told_routes_keys_and_its_own_settings(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        await plane.catalog.put(cpu_model(), None, actor="me")
        key, _ = await plane.keys.make("app", actor="me")
        caller = await Caller(plane).register()
        await caller.follow(*FOLLOWS)
        listing = caller.batches()[0]
        assert listing.listing
        assert {(c.topic, c.id) for c in listing.changes} == {
            (ROUTES, "tiny"),
            (KEYS, key.id),
            (SETTINGS, "gateway"),
        }
        await plane.settings.put("serving.stopped", True, actor="me")
        await clock.advance(0.5)
        change = next(c for c in caller.batches()[-1].changes if c.topic == SETTINGS)
        assert isinstance(change.record, ConfigChange)
        assert change.record.value.stopped


async def test_a_gateway_may_follow_nothing_else(plane: Plane) -> None:
    async with opened(plane):
        caller = await Caller(plane).register()
        await caller.follow(ROUTES, NODES)
        assert isinstance(caller.ended, Refused)
        assert caller.ended.message == "a gateway follows keys, routes, settings; not 'nodes'"
        assert caller.batches() == []
        assert plane.feed.followers == 0


async def test_a_ready_replica_becomes_a_route_with_its_own_key(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        model = cpu_model()
        await plane.catalog.put(model, None, actor="me")
        caller = await Caller(plane).register()
        await caller.follow(ROUTES)
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.reports(spec_of(model, "tiny-aaa111"), READY)
        await clock.advance(0.5)
        change = caller.batches()[-1].changes[0]
        assert isinstance(change.record, RouteChange)
        endpoint = change.record.value.endpoints[0]
        assert (endpoint.replica, endpoint.host, endpoint.port) == (
            "tiny-aaa111",
            "127.0.0.1",
            7500,
        )
        assert endpoint.key == plane.key_of("tiny-aaa111")
        assert endpoint.key != plane.key_of("tiny-bbb222")


async def test_a_gateway_resumes_at_its_position(plane: Plane, clock: FakeClock) -> None:
    async with opened(plane):
        caller = await Caller(plane).register()
        await caller.follow(*FOLLOWS)
        position = caller.batches()[-1].position
        caller.stream.sever()
        await caller.task
        key, _ = await plane.keys.make("app", actor="me")
        again = await Caller(plane).register()
        await again.follow(*FOLLOWS, position=position)
        await clock.advance(0.3)
        batch = again.batches()[0]
        assert not batch.listing
        assert [(c.topic, c.id) for c in batch.changes] == [(KEYS, key.id)]


async def test_routes_stay_while_a_node_is_unreachable_and_are_a_last_resort_when_it_is_lost(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        model = cpu_model()
        await plane.catalog.put(model, None, actor="me")
        agent = FakeAgent("n1")
        agent.runs(spec_of(model, "tiny-aaa111"))
        await agent.connect(plane.agents)
        caller = await Caller(plane).register()
        await caller.follow(ROUTES)
        await agent.sever()
        seen = []
        for _ in range(7):
            await clock.advance(10)
            route = plane.fleet.routes()[0]
            seen.append([endpoint.last_resort for endpoint in route.endpoints])
        assert seen == [[False]] * 6 + [[True]]
        await agent.connect(plane.agents)
        assert not plane.fleet.routes()[0].endpoints[0].last_resort
        assert list(plane.executor.sent) == []


async def test_usage_is_acknowledged_once_it_is_stored(
    plane: Plane, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = UsageReport(
        gateway="g1",
        boot="b1",
        worker=0,
        sequence=4,
        totals=(UsageTotals(key="k", model="m", requests=2),),
    )

    async def away(report: UsageReport, *, at: float) -> bool:
        raise Unreachable("the store is away")

    async with opened(plane):
        caller = await Caller(plane).register()
        with monkeypatch.context() as patch:
            patch.setattr(store, "apply_usage", away)
            caller.stream.say(GatewayMessage(usage=usage))
            await settle()
            assert [one for one in caller.stream.sent if one.usage_taken] == []
        caller.stream.say(GatewayMessage(usage=usage))
        await settle()
        taken = [one.usage_taken for one in caller.stream.sent if one.usage_taken]
        assert taken == [UsageTaken(gateway="g1", boot="b1", worker=0, sequence=4)]
        rows = await plane.usage(0, 1e12)
        assert [(row.key, row.requests) for row in rows] == [("k", 2)]


async def test_a_gateway_reports_no_usage_of_another(plane: Plane, store: MemoryStore) -> None:
    async with opened(plane):
        caller = await Caller(plane).register()
        usage = UsageReport(gateway="g2", boot="b", worker=0, sequence=1, totals=())
        caller.stream.say(GatewayMessage(usage=usage))
        await settle()
        assert isinstance(caller.ended, Refused)
        assert await store.usage(since=0.0, until=1e12) == ()


async def test_a_gateway_shows_while_it_is_connected_and_after(plane: Plane) -> None:
    async with opened(plane):
        caller = await Caller(plane).register()
        gateway = plane.gateways.all()[0]
        assert (gateway.id, gateway.connected, gateway.url) == ("g1", True, "http://g1:7440")
        event = next(one for one in plane.events.recent() if one.subject == "g1")
        assert event.words == "gateway g1 connected: users reach it at http://g1:7440"
        caller.stream.sever()
        await caller.task
        assert [(g.connected, g.peer) for g in plane.gateways.all()] == [(False, None)]
        assert plane.feed.followers == 0


async def test_another_installation_under_the_same_name_is_refused(plane: Plane) -> None:
    async with opened(plane):
        first = await Caller(plane).register()
        second = await Caller(plane, serial="02").register()
        assert isinstance(second.ended, Refused)
        assert "g1:01 keeps the id, g1:02 is another" in second.ended.message
        third = await Caller(plane).register()
        assert first.stream.aborted == "g1 opened a newer stream from g1:01"
        assert third.ended is None
        assert plane.gateways.connected("g1")


async def test_an_engine_that_cannot_be_reached_is_told_once_a_minute(
    plane: Plane, clock: FakeClock
) -> None:
    def told() -> int:
        return len([e for e in plane.events.recent() if e.subject == "tiny-aaa111"])

    async with opened(plane):
        caller = await Caller(plane).register()
        down = GatewayMessage(endpoint_down=EndpointDown(replica="tiny-aaa111", words="refused"))
        for _ in range(5):
            caller.stream.say(down)
        await settle()
        assert told() == 1
        await clock.advance(61)
        caller.stream.say(down)
        await settle()
        assert told() == 2


async def test_gateways_are_pinged_each_interval(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        caller = await Caller(plane).register()
        await pass_time(clock, 11)
        pings = [one.ping.number for one in caller.stream.sent if one.ping]
        assert pings == [1, 2]


async def test_a_gateways_certificate_is_renewed_over_its_stream(
    plane: Plane, store: MemoryStore
) -> None:
    async with opened(plane):
        caller = await Caller(plane).register()
        _, csr = make_key_and_csr("gateway", "g1", "llmgw")
        request = CertificateRequest(csr_pem=csr)
        caller.stream.say(GatewayMessage(certificate_request=request))
        await settle()
        assert caller.stream.sent[-1].certificate is not None
        serial = next(iter(store.certificates))
        assert caller.stream.identity is not None
        assert caller.stream.identity.serial == serial
        (known,) = plane.gateways.all()
        kept = store.certificates[serial]
        assert known.certificate_ends == kept.ends
        assert known.certificate_begins is not None
        assert known.certificate_begins < kept.ends
        again = await Caller(plane, serial=serial).register()
        assert again.ended is None


async def test_a_gateways_certificate_opens_nothing_of_an_agents(plane: Plane) -> None:
    async with opened(plane):
        stream: MemoryStream[GatewayMessage, GatewayControl] = MemoryStream(
            identity("gateway", "g2"), "g2:1"
        )
        stream.say(GatewayMessage(register=GatewayRegister(gateway="g1")))
        with pytest.raises(
            Refused, match="the certificate is for gateway g2, and the message says 'g1'"
        ):
            await plane.gateways.on_gateway(stream)


async def test_a_change_waits_for_every_gateway_that_tells_how_far_it_is(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        one, other = [
            await Caller(plane, name, serial=name).register(features=(REACHED,))
            for name in ("g1", "g2")
        ]
        await Caller(plane, "old", serial="old").register()
        await plane.keys.make("app", actor="me")
        waiting = asyncio.ensure_future(plane.gateways.caught_up())
        await one.reach(plane.feed.position())
        await other.reach(Position(epoch="another", number=plane.feed.number))
        await other.reach(Position(epoch=plane.feed.epoch, number=plane.feed.number - 1))
        assert not waiting.done()
        await other.reach(plane.feed.position())
        assert await waiting


async def test_a_change_does_not_wait_for_a_gateway_that_leaves(plane: Plane) -> None:
    async with opened(plane):
        caller = await Caller(plane).register(features=(REACHED,))
        await plane.keys.make("app", actor="me")
        waiting = asyncio.ensure_future(plane.gateways.caught_up())
        await settle()
        assert not waiting.done()
        caller.stream.abort("gone")
        assert await waiting


async def test_a_change_waits_for_a_slow_gateway_no_longer_than_its_limit(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        await Caller(plane).register(features=(REACHED,))
        await plane.keys.make("app", actor="me")
        waiting = asyncio.ensure_future(plane.gateways.caught_up(limit=1.5))
        await clock.advance(1.4)
        assert not waiting.done()
        await clock.advance(0.2)
        assert not await waiting


async def test_limits_of_keys_are_lent_to_gateways_that_keep_to_slices(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        limits = QuotaFigures(requests_per_minute=20)
        key, _ = await plane.keys.make("app", actor="me", limits=limits)
        old = await Caller(plane, "g0").register()
        callers = [await Caller(plane, name).register(features=(QUOTAS,)) for name in ("g1", "g2")]
        assert grants(callers[0]) == [QuotaGrant(gateways=0)]
        held = QuotaFigures(requests_per_minute=20)
        use = QuotaUse(key=key.id, used=QuotaFigures(requests_per_minute=6), held=held, short=True)
        for gateway in ("g1", "g2"):  # what one says of another is not taken
            report = QuotaReport(gateway=gateway, keys=(use,))
            callers[0].stream.say(GatewayMessage(quotas=report))
        await pass_time(clock, 13)
        newest = grants(callers[0])[1]
        assert newest.gateways == 2
        (slice_,) = newest.slices
        assert slice_.slice is not None
        assert (slice_.slice.requests_per_minute, slice_.more) == (13, True)
        assert plane.gateways.quotas.over() == (key.id,)
        assert grants(old) == []
        plane.writing.failed(USAGE, Unreachable("the store is away"))
        await pass_time(clock, 2)
        assert grants(callers[1])[-1].store_away
        plane.writing.done(USAGE)
        await pass_time(clock, 2)
        assert not grants(callers[1])[-1].store_away


def grants(caller: Caller) -> list[QuotaGrant]:
    return [one.quotas for one in caller.stream.sent if one.quotas is not None]
