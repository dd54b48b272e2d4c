"""Replicas rebuilt from reports, what is booked and until when, failures and their count."""

from collections import Counter

import msgspec
import pytest

from llmgw.control.failures import SURVIVED
from llmgw.control.missing import MOST, missing
from llmgw.control.nodes import Placed
from llmgw.control.plane import Plane
from llmgw.control.replicas import latest, rebuild
from llmgw.model.commands import StopShard
from llmgw.model.feed import REPLICAS
from llmgw.model.replica import DRAINING
from llmgw.model.shard import (
    FAILED,
    FETCHING,
    READY,
    STARTING,
    STOPPED,
    STOPPING,
    STUCK,
    ComputeReport,
    Rendezvous,
    ShardStatus,
)
from llmgw.plan.backoff import wait_after
from llmgw.plan.records import Assignment, NodeRoom, StartReplica
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time, running, spec_of
from tests.fakes.scripted_agent import FakeAgent

MODEL = cpu_model()
SPEC = spec_of(MODEL, "tiny-aaa111", devices=("GPU-n1-0",))


def no_print(model: str, profile: str) -> str | None:
    return None


def placed(
    state: str | None,
    *,
    rank: int = 0,
    node: str = "n1",
    world: int = 1,
    nodes: tuple[str, ...] = (),
) -> Placed:
    meeting = Rendezvous(address="n1", port=1, world=world, nodes=nodes) if world > 1 else None
    spec = msgspec.structs.replace(SPEC, rank=rank, rendezvous=meeting)
    status = ShardStatus(replica=SPEC.replica, rank=rank, state=state, spec=spec)
    return Placed(node, status)


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ((READY, READY), READY),
        ((READY, STARTING), STARTING),
        ((STARTING, FETCHING), FETCHING),
        ((READY, STOPPING), STOPPING),
        ((READY, STUCK), STUCK),
        ((STUCK, FAILED), FAILED),
        ((READY, "resting"), "resting"),
        ((READY, None), None),
    ],
)
def test_a_replica_is_as_far_as_its_least_advanced_shard(
    states: tuple[str | None, str | None], whole: str | None
) -> None:
    shards = [placed(state, rank=rank, world=2) for rank, state in enumerate(states)]
    assert rebuild("r", shards, fingerprint=no_print).state == whole


@pytest.mark.parametrize(
    ("rank", "known", "gone", "whole"),
    [
        (0, READY, None, (READY, None)),
        (0, STARTING, None, (STARTING, "1 of 2 shards are known")),
        (1, READY, None, (STARTING, "1 of 2 shards are known")),
        (0, STUCK, None, (STUCK, None)),
        (0, READY, "n2 left", (FAILED, "shard 1 of 2 is missing: n2 left")),
        (1, STARTING, "n2 left", (FAILED, "shard 0 of 2 is missing: n2 left")),
        (0, STOPPING, "n2 left", (STOPPING, None)),
    ],
)
def test_a_replica_that_lacks_a_shard_is_as_rank_0_says_until_it_is_gone(
    rank: int, known: str, gone: str | None, whole: tuple[str, str | None]
) -> None:
    there = [placed(known, rank=rank, world=2)]
    lacks = missing(there, lambda node: gone)
    assert [one.rank for one in lacks] == [1 - rank]
    replica = rebuild("r", there, fingerprint=no_print, missing=lacks)
    assert (replica.state, replica.reason) == whole


def test_what_a_node_claims_of_others_has_an_end_and_does_not_bind_those_before_it() -> None:
    boasts = [placed(READY, world=10**12)]
    assert len(missing(boasts, lambda _: None)) == MOST - 1
    alone = [placed(READY), placed(READY, rank=5, node="n9", world=8)]
    assert missing(alone, lambda _: "it left") == ()


def test_no_more_shards_are_looked_for_than_there_are_nodes_for_them() -> None:
    asked: list[str | None] = []
    boasts = [placed(READY, rank=255, world=256)]
    lacks = missing(boasts, asked.append, nodes=3)
    assert (len(lacks), len(asked)) == (4, 4)
    replica = rebuild("r", boasts, fingerprint=no_print, missing=lacks)
    assert (replica.state, replica.reason) == (
        FAILED,
        "shard 3 of 256 is missing: the cluster has 3 nodes",
    )
    left = missing([placed(READY, world=2, nodes=("n1", "n2"))], lambda _: "n2 left", nodes=1)
    assert [one.gone for one in left] == ["n2 left"]
    assert [one.gone for one in missing([placed(READY, world=3)], asked.append, nodes=3)] == [
        None,
        None,
    ]


@pytest.mark.parametrize("state", [READY, STARTING, FETCHING, STUCK, None, "resting"])
def test_once_it_was_told_to_stop_a_replica_is_leaving_however_it_was_before(
    state: str | None,
) -> None:
    told = rebuild("r", [placed(state)], fingerprint=no_print, draining="go", ordered=True)
    assert (told.state, told.reason) == (DRAINING, "go")


@pytest.mark.parametrize("state", [STOPPING, FAILED])
def test_what_ends_is_said_as_it_ends_though_it_was_told_to_stop(state: str) -> None:
    told = rebuild("r", [placed(state)], fingerprint=no_print, draining="go", ordered=True)
    assert told.state == state


def test_a_shard_that_is_waited_for_is_shown_where_it_was_sent_and_one_that_is_gone_is_not() -> (
    None
):
    there = [placed(READY, world=2, nodes=("n1", "n2"))]
    asked: list[str | None] = []
    waits = rebuild("r", there, fingerprint=no_print, missing=missing(there, asked.append))
    assert asked == ["n2"]
    assert [(shard.rank, shard.node, shard.state) for shard in waits.shards] == [
        (0, "n1", READY),
        (1, "n2", None),
    ]
    gone = rebuild("r", there, fingerprint=no_print, missing=missing(there, lambda _: "it left"))
    assert [shard.node for shard in gone.shards] == ["n1"]


def test_stale_needs_two_fingerprints_to_compare() -> None:
    def wanted(model: str, profile: str) -> str | None:
        return "another"

    assert rebuild("r", [placed(READY)], fingerprint=no_print).stale is None
    assert rebuild("r", [placed(READY)], fingerprint=wanted).stale is True
    bare = Placed("n1", ShardStatus(replica="r", state=READY))
    assert rebuild("r", [bare], fingerprint=wanted).stale is None


def test_a_report_keeps_the_spec_and_what_the_same_process_computes_on() -> None:
    compute = ComputeReport(back_end="CPU")
    first = ShardStatus(replica="r", state=STARTING, pid=7, spec=SPEC, compute=compute, port=7500)
    second = latest(first, ShardStatus(replica="r", state=READY, pid=7))
    assert (second.spec, second.compute, second.port) == (SPEC, compute, 7500)
    third = latest(second, ShardStatus(replica="r", state=STARTING, pid=8))
    assert (third.spec, third.compute, third.port) == (SPEC, None, None)


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock)


def room(plane: Plane, node: str) -> NodeRoom:
    return next(one for one in plane.fleet.observed().nodes if one.node.id == node)


def held(plane: Plane, node: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(booking.replica, booking.devices) for booking in room(plane, node).bookings]


async def test_replicas_are_rebuilt_from_a_register_alone(plane: Plane) -> None:
    async with opened(plane):
        await plane.catalog.put(MODEL, None, actor="me")
        agent = FakeAgent("n1", devices=1)
        agent.runs(SPEC, adopted=True)
        await agent.connect(plane.agents)
        replica = plane.fleet.replica("tiny-aaa111")
        assert replica is not None
        assert (replica.state, replica.model, replica.stale) == (READY, "tiny", False)
        assert (replica.shards[0].node, replica.shards[0].port) == ("n1", 7500)
        assert held(plane, "n1") == [("tiny-aaa111", ("GPU-n1-0",))]
        assert list(plane.executor.sent) == []


async def test_bookings_last_until_the_shard_is_reported_stopped_or_failed(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        for state in (FETCHING, STARTING, READY, STOPPING, STUCK):
            agent.reports(SPEC, state)
            await settle()
            assert held(plane, "n1") == [("tiny-aaa111", ("GPU-n1-0",))], state
        agent.reports(SPEC, FAILED, reason="out of memory")
        await settle()
        assert held(plane, "n1") == []
        replica = plane.fleet.replica("tiny-aaa111")
        assert replica is not None
        assert (replica.state, replica.reason) == (FAILED, "out of memory")


async def test_bookings_outlive_the_stream_and_the_node_going_lost(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        agent.runs(SPEC)
        await agent.connect(plane.agents)
        await agent.sever()
        await clock.advance(120)
        assert held(plane, "n1") == [("tiny-aaa111", ("GPU-n1-0",))]


async def test_a_node_that_returns_without_a_shard_lets_go_of_it(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        agent.runs(SPEC)
        await agent.connect(plane.agents)
        agent.shards.clear()
        await agent.connect(plane.agents)
        assert plane.fleet.replicas() == ()
        assert held(plane, "n1") == []
        assert plane.feed.listing([REPLICAS]).changes == ()


async def test_a_shard_that_nobody_can_describe_holds_every_device(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=2)
        await agent.connect(plane.agents)
        agent.say(shard=ShardStatus(replica="who-knows", state=READY))
        await settle()
        assert held(plane, "n1") == [("who-knows", ("GPU-n1-0", "GPU-n1-1"))]


def start(spec_replica: str = "tiny-aaa111", node: str = "n1") -> StartReplica:
    spec = spec_of(MODEL, spec_replica, devices=("GPU-n1-0",))
    return StartReplica(
        replica=spec_replica,
        model="tiny",
        profile="default",
        shards=(Assignment(node=node, spec=spec),),
        words="1 wanted, 0 there",
    )


async def test_a_start_on_its_way_books_and_shows_as_starting(plane: Plane) -> None:
    async with opened(plane):
        await FakeAgent("n1", devices=1).connect(plane.agents)
        plane.fleet.shards.begin(start())
        replica = plane.fleet.replica("tiny-aaa111")
        assert replica is not None
        assert (replica.state, replica.shards[0].node) == (STARTING, "n1")
        assert held(plane, "n1") == [("tiny-aaa111", ("GPU-n1-0",))]


async def test_a_start_that_nobody_reports_is_given_up_and_counts_as_failed(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        plane.fleet.shards.begin(start())
        await pass_time(clock, 25, [agent])
        assert (await plane.passes["expire"].run_once()).sentence == "nothing to let go"
        assert held(plane, "n1") != []
        await pass_time(clock, 5, [agent])
        seen = await plane.passes["expire"].run_once()
        assert seen.sentence == "gave up the start of tiny-aaa111 on n1"
        assert plane.fleet.replicas() == ()
        failures = plane.fleet.observed().failures
        assert [(f.model, f.node, f.count) for f in failures] == [("tiny", "n1", 1)]


async def test_what_a_given_up_start_was_given_is_held_until_its_node_speaks(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        plane.fleet.shards.begin(start())
        await pass_time(clock, 40, [agent])
        await plane.passes["expire"].run_once()
        assert held(plane, "n1") == [("tiny-aaa111", ("GPU-n1-0",))]
        agent.reports(spec_of(MODEL, "tiny-aaa111", devices=("GPU-n1-0",)), STARTING)
        await settle()
        assert [replica.id for replica in plane.fleet.replicas()] == ["tiny-aaa111"]
        plane.fleet.shards.begin(start("tiny-bbb222"))
        await pass_time(clock, 40, [agent])
        await plane.passes["expire"].run_once()
        await agent.connect(plane.agents)
        assert held(plane, "n1") == [("tiny-aaa111", ("GPU-n1-0",))]


async def test_a_start_that_was_accepted_is_held_until_its_node_speaks(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        plane.fleet.shards.begin(start())
        plane.fleet.shards.accepted("tiny-aaa111", 0)
        await pass_time(clock, 300, [agent])
        await plane.passes["expire"].run_once()
        assert held(plane, "n1") != []
        await agent.connect(plane.agents)
        assert held(plane, "n1") == []


async def test_a_report_takes_the_place_of_the_start_on_its_way(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        plane.fleet.shards.begin(start())
        agent.reports(spec_of(MODEL, "tiny-aaa111", devices=("GPU-n1-0",)), STARTING)
        await settle()
        assert len(held(plane, "n1")) == 1
        agent.say(shard=ShardStatus(replica="tiny-aaa111", state=STOPPED))
        await settle()
        assert plane.fleet.replicas() == ()


async def test_each_message_marks_each_replica_that_it_changes_once(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        marked: list[str] = []
        mark = plane.feed.mark

        def marks(topic: str, object_id: str) -> None:
            marked.append(f"{topic} {object_id}")
            mark(topic, object_id)

        monkeypatch.setattr(plane.feed, "mark", marks)
        plane.fleet.shards.begin(start())
        agent.reports(spec_of(MODEL, "tiny-aaa111"))
        await settle()
        agent.runs(spec_of(MODEL, "tiny-bbb222"))
        agent.shards.pop(("tiny-aaa111", 0))
        await agent.connect(plane.agents)
        replicas = [one for one in marked if one.startswith(REPLICAS)]
    assert replicas == [
        "replicas tiny-aaa111",
        "replicas tiny-aaa111",
        "replicas tiny-aaa111",
        "replicas tiny-bbb222",
    ]


async def test_failed_starts_are_counted_per_model_and_node_and_once_each(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        for number in range(3):
            spec = spec_of(MODEL, f"tiny-{number}")
            agent.reports(spec, STARTING)
            agent.reports(spec, FAILED, reason="bad file")
            agent.reports(spec, FAILED, reason="bad file")
        await settle()
        failures = plane.fleet.observed().failures
        assert [(f.model, f.node, f.count, f.words) for f in failures] == [
            ("tiny", "n1", 3, "bad file")
        ]


async def test_a_replica_that_served_and_dies_is_restarted_at_once_then_with_waits(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        waits = []
        for number in range(4):
            spec = spec_of(MODEL, f"tiny-{number}")
            agent.reports(spec, READY)
            await pass_time(clock, 61, [agent])
            agent.reports(spec, FAILED, reason="killed", last_lines=("first", "last"))
            await settle()
            (failure,) = plane.fleet.observed().failures
            assert failure.served
            waits.append(wait_after(failure))
        assert waits == [0.0, 5.0, 10.0, 20.0]
        assert plane.fleet.replicas()[-1].shards[0].last_lines == ("first", "last")


async def test_a_replica_that_served_for_long_is_restarted_at_once_again(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        for number in range(3):
            spec = spec_of(MODEL, f"tiny-{number}")
            agent.reports(spec, READY)
            await pass_time(clock, SURVIVED, [agent], every=30)
            agent.reports(spec, FAILED, reason="killed", since=clock.now())
            await settle()
            (failure,) = plane.fleet.observed().failures
            assert (failure.count, wait_after(failure)) == (1, 0.0)


async def test_a_changed_model_is_forgiven_its_failures(plane: Plane) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        agent.reports(SPEC, FAILED, reason="bad file", since=None)
        await settle()
        assert len(plane.fleet.observed().failures) == 1
        await plane.catalog.put(MODEL, None, actor="me")
        assert plane.fleet.observed().failures == ()


async def test_failed_replicas_stay_in_view_for_a_while_and_only_a_few_of_them(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        for number in range(5):
            agent.reports(
                spec_of(MODEL, f"tiny-{number}"), FAILED, reason="x", since=clock.now() + number
            )
        await settle()
        assert [r.id for r in plane.fleet.replicas()] == ["tiny-2", "tiny-3", "tiny-4"]
        await pass_time(clock, 660, [agent], every=30)
        await plane.passes["expire"].run_once()
        assert plane.fleet.replicas() == ()


async def test_failures_of_before_a_restart_count_while_they_are_recent(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        agent = FakeAgent("n1")
        agent.runs(SPEC, FAILED, reason="bad file", since=clock.now() - 30)
        old = spec_of(cpu_model("other"), "other-1")
        agent.runs(old, FAILED, reason="bad file", since=clock.now() - 3600)
        await clock.advance(40)
        await agent.connect(plane.agents)
        failures = plane.fleet.observed().failures
        assert [(f.model, f.last) for f in failures] == [("tiny", clock.monotonic() - 70)]


@pytest.mark.parametrize("state", [READY, STARTING, FAILED])
@pytest.mark.parametrize("other", ["a0", "z9"])
async def test_a_shard_that_runs_on_one_node_is_no_other_nodes_to_tell_of(
    clock: FakeClock, state: str, other: str
) -> None:
    plane = make_plane(clock)
    async with opened(plane):
        await plane.catalog.put(MODEL, expected=None, actor="anna")
        agent, copy = FakeAgent("n1", devices=1), FakeAgent(other, devices=1)
        await agent.connect(plane.agents)
        agent.reports(SPEC)
        await settle()
        before, routes = plane.fleet.replicas(), plane.fleet.routes()
        copy.runs(SPEC, state, address="203.0.113.9", port=80)
        await copy.connect(plane.agents)
        assert plane.fleet.replicas() == before
        assert plane.fleet.routes() == routes
        assert plane.fleet.shards.failures.all() == ()
        held = {room.node.id: len(room.bookings) for room in plane.fleet.observed().nodes}
        assert held == {"n1": 1, other: 0 if state == FAILED else 1}
        told = [one.words for one in plane.events.recent() if "runs elsewhere" in one.words]
        assert told == [f"tiny-aaa111 runs elsewhere, and {other} says it has it: ignored"]
        agent.reports(SPEC, STOPPED)
        await settle()
        assert [shard.node for one in plane.fleet.replicas() for shard in one.shards] == [other]


async def test_a_shard_on_its_way_to_one_node_is_no_other_nodes_to_tell_of(
    clock: FakeClock,
) -> None:
    plane = make_plane(clock)
    async with opened(plane):
        agent, copy = FakeAgent("n1", devices=1), FakeAgent("a0", devices=1)
        await agent.connect(plane.agents)
        await copy.connect(plane.agents)
        step = StartReplica(
            replica=SPEC.replica,
            model=SPEC.model,
            profile=SPEC.profile,
            shards=(Assignment(node="n1", spec=SPEC),),
            words="wanted",
        )
        plane.fleet.shards.begin(step)
        copy.reports(SPEC)
        await settle()
        (replica,) = plane.fleet.replicas()
        assert [(shard.node, shard.state) for shard in replica.shards] == [("n1", STARTING)]
        agent.reports(SPEC)
        await settle()
        (replica,) = plane.fleet.replicas()
        assert [(shard.node, shard.state) for shard in replica.shards] == [("n1", READY)]


async def test_an_engine_that_hangs_is_replaced_at_once_then_with_waits(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(MODEL, None, actor="me")
        await settle()
        waits = []
        for _ in range(3):
            (spec,) = [one.spec for one in agent.shards.values() if one.spec is not None]
            agent.reports(spec, STUCK, reason="no token moved", last_lines=("the last",))
            began = clock.monotonic()
            await settle()
            (failure,) = plane.fleet.observed().failures
            assert (failure.served, failure.words) == (True, "no token moved")
            while [one.state for one in plane.fleet.replicas()] != [READY]:
                await pass_time(clock, 0.5, [agent])
            waits.append(clock.monotonic() - began)
        assert waits[0] < 3 < waits[1] < 8 < waits[2]
        stops = [one for one in agent.requests(StopShard) if isinstance(one, StopShard)]
        assert [one.reason for one in stops] == ["it is stuck"] * 3
        told = [one.words for one in plane.events.recent() if "is stuck on n1" in one.words]
        assert len(told) == 3


@pytest.mark.parametrize("state", [STUCK, None])
async def test_what_hangs_is_told_to_stop_once_until_that_order_lapses(
    plane: Plane, clock: FakeClock, state: str | None
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(MODEL, None, actor="me")
        await settle()
        (spec,) = [one.spec for one in agent.shards.values() if one.spec is not None]
        hangs = agent.runs(spec, STUCK, reason="no token moved")
        agent.say(shard=msgspec.structs.replace(hangs, state=state))
        agent.silent = True
        await plane.catalog.remove(MODEL.name, actor="me")
        await pass_time(clock, 25, [agent], every=1)
        assert {one.state for one in plane.fleet.replicas()} == {DRAINING}
        told = told_to_stop(agent)
        assert told[spec.replica] == max(told.values()) == 1
        await pass_time(clock, 20, [agent], every=1)
        told = told_to_stop(agent)
        assert told[spec.replica] == max(told.values()) == 2


def told_to_stop(agent: FakeAgent) -> Counter[str]:
    """Return how often each replica was told to stop."""
    return Counter(one.replica for one in agent.requests(StopShard) if isinstance(one, StopShard))
