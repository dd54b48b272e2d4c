"""Who gives way, how often, and what it costs: beyond the transcripts."""

import math
from itertools import pairwise
from random import Random

import msgspec
import pytest

from llmgw.model.catalog import Scaling
from llmgw.model.fabric import Port
from llmgw.model.shard import FAILED, READY, STARTING, STOPPED
from llmgw.plan.backoff import ELSEWHERE_AFTER, LONGEST, PATIENCE, held_back
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import (
    DrainReplica,
    EvictReplica,
    KeepReplica,
    PreemptReplica,
    StartFailure,
    StartReplica,
    StopReplica,
)
from tests.unit.plan.fleet import Fleet, model, node

HOUR = 3600.0
YIELDS = (EvictReplica, PreemptReplica)


def progress(fleet: Fleet, failing: str | None = None) -> None:
    """Let everything go on by itself: what starts is ready or fails, what is told to stop stops."""
    for replica in tuple(fleet.replicas.values()):
        if replica.state == STARTING and replica.model == failing:
            fleet.state(replica.id, FAILED, "bad file")
            del fleet.replicas[replica.id]
        elif replica.state == STARTING:
            fleet.state(replica.id, READY)
            fleet.busy(replica.id, 1)
        elif replica.state == "draining":
            fleet.busy(replica.id, 0)
            if replica.id in fleet.told_to_stop:
                fleet.state(replica.id, "stopped")


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_model_that_never_starts_costs_lower_ones_ever_less(nodes: int):
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=1) for k in range(nodes)))
    fleet.serve(model("low", gpus=1, replicas=nodes))
    fleet.turn()
    progress(fleet)
    fleet.serve(model("high", gpus=1, priority=10))
    begin, gone = fleet.now, list[float]()
    while fleet.now - begin < 8 * HOUR:
        plan = fleet.turn()
        gone += [fleet.now - begin for step in plan.steps if isinstance(step, YIELDS)]
        progress(fleet, "high")
        fleet.wait(5 if plan.steps or fleet.now - begin < 200 else 100)
    at_once = min(nodes, 2)
    assert at_once <= len(gone) <= at_once * (math.log2(LONGEST / PATIENCE) + 8 * HOUR / LONGEST)
    apart = [later - sooner for sooner, later in zip(gone, gone[at_once:], strict=False)]
    assert len(apart) > 2
    assert all(one >= PATIENCE for one in apart)
    assert all(later >= min(1.7 * sooner, LONGEST) for sooner, later in pairwise(apart[::at_once]))


def test_what_was_pre_empted_has_its_place_back_between_two_tries():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("low", gpus=1))
    fleet.serve(model("high", gpus=1, priority=10))
    served = 0.0
    begin = fleet.now
    while fleet.now - begin < HOUR / 2:
        fleet.turn()
        progress(fleet, "high")
        served += 5 * any(one.state == READY for one in fleet.replicas.values())
        fleet.wait(5)
    assert served > 0.9 * HOUR / 2


def test_one_whose_fault_is_over_comes_back_by_itself():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("low", gpus=1))
    fleet.serve(model("high", gpus=1, priority=10))
    begin = fleet.now
    while fleet.now - begin < 60:
        fleet.turn()
        progress(fleet, "high")
        fleet.wait(2)
    assert [one.model for one in fleet.replicas.values()] == ["low"]
    while fleet.now - begin < 60 + PATIENCE:
        fleet.turn()
        progress(fleet)
        fleet.wait(2)
    assert [(one.model, one.state) for one in fleet.replicas.values()] == [("high", READY)]


def test_after_three_failures_on_a_node_others_give_way_elsewhere_and_then_nowhere():
    def failed(*counts: int) -> list[StartFailure]:
        return [
            StartFailure(model="m", node=f"n{k}", count=count, last=0.0, words="why")
            for k, count in enumerate(counts)
        ]

    once = held_back(failed(3), 1.0)
    assert (set(once.spared), once.asks_nobody) == ({"n0"}, False)
    assert (
        once.patience
        == "nobody gives way to it on n0 until 10m00s after the last of its 3 failed starts"
    )
    assert held_back(failed(3), PATIENCE).patience == ""
    assert not held_back(failed(3), PATIENCE).spared
    for counts, span in (((3, 3), 2), ((3, 2, 4), 4), ((5, 5), LONGEST / PATIENCE)):
        assert held_back(failed(*counts), span * PATIENCE - 1).asks_nobody
        assert not held_back(failed(*counts), span * PATIENCE).asks_nobody
    for count, span in ((4, 2), (5, 4), (99, LONGEST / PATIENCE)):
        assert set(held_back(failed(count), span * PATIENCE - 1).spared) == {"n0"}
        assert not held_back(failed(count), span * PATIENCE).spared
        assert not held_back(failed(count), 1.0).asks_nobody
    assert not held_back(failed(2, 2), 0.0).patience


@pytest.mark.parametrize("reply", [20, 700])
def test_a_node_on_which_nothing_starts_does_not_keep_a_model_from_another(reply: int):
    fleet = Fleet()
    fleet.join(node("bad", devices=1), node("good", devices=1, labels={"zone": "b"}))
    fleet.serve(model("batch", gpus=1, node_selector={"zone": "b"}))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("batch-000001", 1)
    fleet.serve(model("chat", gpus=1, priority=10))
    begin, tried = fleet.now, 0
    while fleet.now - begin < HOUR and not _serves(fleet, "chat"):
        fleet.turn()
        for replica in tuple(fleet.replicas.values()):
            if replica.model == "chat" and replica.shards[0].node == "bad":
                fleet.state(replica.id, FAILED, "driver broken")
                del fleet.replicas[replica.id]
                tried += 1
        fleet.all_ready()
        for name in fleet.drains.keys() & fleet.replicas.keys():
            if fleet.now - fleet.drains[name][0] >= reply:
                fleet.busy(name, 0)
        for name in fleet.told_to_stop & fleet.replicas.keys():
            fleet.state(name, STOPPED)
        fleet.wait(2)
    assert _serves(fleet, "chat")
    assert tried == ELSEWHERE_AFTER


def test_one_node_that_fails_again_and_again_makes_no_other_one_wait_for_it():
    always = StartFailure(model="m", node="n0", count=50, last=2 * LONGEST, words="driver")
    once = StartFailure(model="m", node="n1", count=3, last=0.0, words="bad file")
    held = held_back([always, once], 2 * LONGEST + 1)
    assert (set(held.spared), held.asks_nobody) == ({"n0"}, False)


def _serves(fleet: Fleet, name: str) -> bool:
    return any(one.model == name and one.state == READY for one in fleet.replicas.values())


def test_nobody_is_asked_to_go_while_it_waits_after_a_failed_start():
    fleet = Fleet()
    fleet.join(node("n1", devices=1), node("n2", devices=1))
    fleet.serve(model("low", gpus=1, replicas=2))
    fleet.turn()
    progress(fleet)
    fleet.serve(model("high", gpus=1, priority=10))
    fleet.failures["high", "n1"] = StartFailure(
        model="high", node="n1", count=2, last=fleet.now, words="why"
    )
    assert fleet.turn().steps == ()
    fleet.wait(10)
    assert [type(step) for step in fleet.turn().steps] == [PreemptReplica]


def test_a_place_is_not_left_to_a_lower_priority_for_a_short_wait():
    """Whatever else would suit it: the next try is where it failed."""
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("high", gpus=1, priority=1))
    fleet.turn()
    progress(fleet, "high")
    fleet.join(node("n0", devices=1))
    fleet.serve(model("low", gpus=1, replicas=2))
    plan = fleet.turn()
    assert [(s.model, s.shards[0].node) for s in plan.steps if isinstance(s, StartReplica)] == [
        ("low", "n0")
    ]
    fleet.wait(5)
    (start,) = fleet.turn().steps
    assert isinstance(start, StartReplica)
    assert (start.model, start.shards[0].node) == ("high", "n1")


@pytest.mark.parametrize("seed", range(20))
def test_what_one_plan_starts_no_later_one_lets_go_by_itself(seed: int):
    """All that is missing of a higher priority has its places before a lower one is placed."""
    rng = Random(seed)
    fleet = Fleet()
    for k in range(rng.randint(2, 5)):
        cards = rng.choice((0, 1, 2, 4))
        fleet.join(node(f"n{k}", devices=cards, memory_gb=rng.choice((16, 25, 64)), cpus=8))
    started: set[str] = set()
    for _ in range(4):
        for name in ("a", "b", "c", "d"):
            if rng.random() < 0.5:
                fleet.serve(any_model(name, rng))
        for _ in range(10):
            plan = fleet.turn()
            gone = {s.replica for s in plan.steps if isinstance(s, YIELDS)}
            assert not gone & started, plan.sentence
            started |= {s.replica for s in plan.steps if isinstance(s, StartReplica)}
            progress(fleet)
            fleet.wait(rng.choice((2, 2, 70)))
        started.clear()


def any_model(name: str, rng: Random):
    return model(
        name,
        gpus=rng.choice((0, 0, 1, 1, 2)),
        replicas=rng.randint(0, 4),
        max_replicas=rng.choice((None, 5)),
        scaling=rng.choice((None, Scaling(in_flight=2, window=0, down_window=40))),
        min_memory_gb=rng.choice((None, 3, 10, 22.5)),
        cpu_cores=rng.choice((None, 2)),
        priority=rng.choice((0, 0, 1, 5)),
        context=rng.choice((None, 4096)),
    )


def test_the_last_to_go_may_free_what_the_first_was_to_go_for():
    fleet = Fleet()
    fleet.join(node("n1", devices=2), node("n2", devices=2))
    fleet.serve(model("pair", gpus=2, priority=1))
    fleet.serve(model("one", gpus=1, replicas=2))
    fleet.turn()
    progress(fleet)
    fleet.serve(model("high", gpus=1, replicas=3, priority=5))
    gone = [step.replica.partition("-")[0] for step in fleet.turn().steps]
    assert sorted(gone) == ["one", "pair"]


def test_a_roll_of_several_nodes_lets_go_what_is_in_its_way_on_all_of_them():
    ports = (Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0x1"),)
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=2, inventory={"ports": ports}) for k in (1, 2)))
    fleet.serve(model("huge", gpus=1, nodes=2, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("huge", gpus=2, nodes=2, replicas=2))
    assert [type(step) for step in fleet.turn().steps] == [DrainReplica, DrainReplica]
    fleet.all_stopped()
    (start,) = fleet.turn().steps
    assert isinstance(start, StartReplica)
    assert [one.node for one in start.shards] == ["n1", "n2"]


def test_a_roll_lets_go_as_few_as_are_enough():
    fleet = Fleet()
    fleet.join(node("n1", devices=4), node("n2", devices=2))
    fleet.serve(model("m", gpus=1, replicas=6))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("m", gpus=2, replicas=6))
    assert [type(step) for step in fleet.turn().steps] == [DrainReplica, DrainReplica]


def test_an_order_to_stop_that_was_planned_is_not_given_when_the_replica_goes_on():
    """It is found to be drained in the pass in which it is wanted again."""
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("m", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("m-000001", 1)
    fleet.serve(model("m", gpus=1, replicas=0))
    fleet.turn()
    fleet.wait(5)
    fleet.busy("m-000001", 0)
    fleet.serve(model("m", gpus=1))
    assert [type(step) for step in fleet.turn().steps] == [KeepReplica]
    assert fleet.turn().steps == ()


@pytest.mark.parametrize("change", ["told", "stale", "a shard is not ready", "out of reach"])
def test_only_what_still_serves_as_it_is_wanted_goes_on(change: str):
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("m", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("m-000001", 1)
    fleet.serve(model("m", gpus=1, replicas=0))
    fleet.turn()
    context = None
    if change == "told":
        fleet.told_to_stop.add("m-000001")
    elif change == "stale":
        context = 4096
    elif change == "out of reach":
        fleet.change("n1", liveness="unreachable")
    else:
        one = fleet.replicas["m-000001"]
        shard = msgspec.structs.replace(one.shards[0], state="stuck")
        fleet.replicas[one.id] = msgspec.structs.replace(one, shards=(shard,))
    fleet.serve(model("m", gpus=1, context=context))
    assert fleet.turn().steps == ()


def test_an_order_to_stop_that_was_lost_is_given_again_and_not_taken_back():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("m", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("m", gpus=1, replicas=0))
    fleet.turn()
    fleet.wait(5)
    fleet.serve(model("m", gpus=1))
    observed = fleet.observed()
    told = tuple(msgspec.structs.replace(one, told_before=True) for one in observed.drains)
    plan = reconcile(
        fleet.desired(),
        msgspec.structs.replace(observed, drains=told),
        fleet.now,
        number=1,
        parent=None,
        new_id=lambda name: f"{name}-again",
    )
    assert [type(step) for step in plan.steps] == [StopReplica]


def test_what_drains_does_not_come_back_where_a_higher_priority_is_to_have_its_place():
    """Not its memory either, which the higher one asks for and will not hold."""
    fleet = Fleet()
    fleet.join(node("n1", devices=1, memory_gb=64))
    fleet.serve(model("low", min_memory_gb=40))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("low-000001", 1)
    fleet.serve(model("high", gpus=1, min_memory_gb=60, priority=1))
    assert [type(step) for step in fleet.turn().steps] == [PreemptReplica]
    fleet.serve(model("small", min_memory_gb=10))
    assert fleet.turn().steps == ()
    fleet.busy("low-000001", 0)
    fleet.wait(2)
    assert [type(step) for step in fleet.turn().steps] == [StopReplica]
    fleet.all_stopped()
    starts = [step.model for step in fleet.turn().steps if isinstance(step, StartReplica)]
    assert starts == ["high", "low", "small"]
