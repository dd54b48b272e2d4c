"""What the transcripts do not show of a pass."""

from typing import Any

import msgspec
import pytest

from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.fabric import Port
from llmgw.model.node import WeightsHeld
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.shard import FAILED
from llmgw.plan.backoff import delay
from llmgw.plan.explain import explain
from llmgw.plan.records import DrainReplica, StartFailure, StartReplica, StopReplica
from tests.unit.plan.fleet import Fleet, gpu, model, node


def serving(*, nodes: int = 2, devices: int = 2, **profile) -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=devices) for k in range(1, nodes + 1)))
    fleet.serve(model("qwen", **{"gpus": 1, **profile}))
    fleet.turn()
    fleet.all_ready()
    return fleet


def kinds(fleet: Fleet) -> list[type]:
    return [type(step) for step in fleet.turn().steps]


def test_an_outdated_replica_is_replaced_one_at_a_time_where_there_is_room_for_all():
    fleet = serving(nodes=3, devices=4, replicas=3)
    fleet.serve(model("qwen", gpus=1, replicas=3, context=8192))
    for _ in range(3):
        assert kinds(fleet) == [StartReplica]
        assert kinds(fleet) == []
        fleet.all_ready()
        assert kinds(fleet) == [DrainReplica]
        fleet.all_stopped()
    assert kinds(fleet) == []


def test_an_outdated_replica_is_kept_while_its_successor_fails():
    fleet = serving(nodes=1, devices=2)
    fleet.serve(model("qwen", gpus=1, arguments=("--wrong",)))
    for _ in range(5):
        for step in fleet.turn().steps:
            fleet.state(step.replica, FAILED, "unknown argument")
        fleet.wait(3)
    assert fleet.replicas["qwen-000001"].state == "ready"


def test_no_outdated_replica_is_stopped_for_room_where_its_successor_failed_to_start():
    fleet = serving(nodes=1, devices=1)
    fleet.serve(model("qwen", gpus=1, context=8192))
    fleet.failures["qwen", "n1"] = StartFailure(
        model="qwen", node="n1", count=1, last=fleet.now, words="why"
    )
    assert fleet.turn().steps == ()
    fleet.wait(10)
    assert kinds(fleet) == [DrainReplica]


def test_an_outdated_replica_that_is_not_ready_is_stopped_at_once():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.serve(model("qwen", gpus=1, context=8192))
    (stop,) = [step for step in fleet.turn().steps if isinstance(step, StopReplica)]
    assert stop.words == "the catalog changed since it was started"


def test_scaling_down_gives_up_what_is_not_ready_then_the_newest():
    fleet = serving(nodes=1, devices=4)
    for replicas in (2, 3):
        fleet.wait(5)
        fleet.serve(model("qwen", gpus=1, replicas=replicas))
        fleet.turn()
        fleet.all_ready()
    fleet.serve(model("qwen", gpus=1, replicas=4))
    fleet.turn()
    fleet.serve(model("qwen", gpus=1, replicas=2))
    stopped = [step.replica for step in fleet.turn().steps]
    assert stopped == ["qwen-000004", "qwen-000003"]


def test_a_change_that_is_no_part_of_what_runs_restarts_nothing():
    fleet = serving()
    fleet.serve(model("qwen", gpus=1, node_selector={"zone": "b"}, priority=5))
    assert fleet.turn().steps == ()


def test_the_higher_priority_is_placed_first():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("aaa", gpus=1))
    fleet.serve(model("zzz", gpus=1, priority=1))
    plan = fleet.turn()
    assert [step.model for step in plan.steps if isinstance(step, StartReplica)] == ["zzz"]
    assert [refusal.model for refusal in plan.refusals] == ["aaa"]


def test_an_id_that_is_taken_is_asked_for_again():
    fleet = serving(nodes=1, devices=2)
    fleet._ids = iter((1, 1, 7))  # type: ignore[assignment]
    fleet.serve(model("qwen", gpus=1, replicas=2))
    (start,) = fleet.turn().steps
    assert start.replica == "qwen-000007"


def test_a_start_carries_all_that_its_node_needs():
    fleet = Fleet()
    fleet.join(node("n1"))
    profile: dict[str, Any] = {
        "min_memory_gb": 2.5,
        "cpu_cores": 3,
        "context": 4096,
        "arguments": ("-x",),
    }
    fleet.serve(model("qwen", **profile, ready_timeout=60.0, concurrency=4))
    (start,) = fleet.turn().steps
    assert isinstance(start, StartReplica)
    spec = start.shards[0].spec
    assert (spec.memory_bytes, spec.cpu_cores, spec.context) == (2_500_000_000, 3, 4096)
    assert (spec.arguments, spec.ready_timeout, spec.concurrency) == (("-x",), 60.0, 4)
    assert spec.fingerprint
    assert spec.rendezvous is None


def test_a_replica_that_nobody_can_describe_is_left_alone_and_holds_its_devices():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    shard = ReplicaShard(rank=0, node="n1", state="ready", devices=("GPU-n1-0",))
    fleet.replicas["stray"] = Replica(id="stray", state="ready", shards=(shard,))
    fleet.serve(model("qwen", gpus=1))
    plan = fleet.turn()
    assert plan.steps == ()
    assert "gpu0 counted as held by stray, of which nothing is known" in plan.refusals[0].words


def test_what_is_out_of_reach_is_stopped_when_it_can_be_told():
    fleet = serving(nodes=1)
    fleet.withdraw("qwen")
    fleet.change("n1", liveness="unreachable")
    assert fleet.turn().steps == ()
    fleet.change("n1", liveness="ready")
    assert kinds(fleet) == [DrainReplica]
    fleet.wait(2)
    assert kinds(fleet) == [StopReplica]


def test_a_node_that_is_removed_takes_its_replicas_out_of_the_count():
    fleet = serving(nodes=2, devices=1)
    fleet.change("n1", liveness="lost")
    assert fleet.turn().steps == ()
    del fleet.nodes["n1"]
    del fleet.replicas["qwen-000001"]
    (start,) = fleet.turn().steps
    assert isinstance(start, StartReplica)
    assert start.shards[0].node == "n2"


@pytest.mark.parametrize(("count", "seconds"), [(1, 5), (2, 10), (3, 20), (7, 300), (1000, 300)])
def test_the_wait_doubles_up_to_five_minutes(count: int, seconds: float):
    assert delay(count) == seconds


def test_a_sentence_names_three_and_counts_the_rest():
    fleet = Fleet()
    fleet.join(node("n1", devices=8))
    for name in "abcde":
        fleet.serve(model(name, gpus=1))
    sentence = fleet.turn().sentence
    assert sentence.count("starts ") == 3
    assert sentence.endswith("and 2 more")


def test_explain_says_of_every_node_what_placement_would():
    fleet = Fleet()
    held = (WeightsHeld(name="/w"),)
    bad = msgspec.structs.replace(gpu("n2", 0), unhealthy=("xid 79",))
    fleet.join(
        node("n1", devices=2, inventory={"weights": held}),
        node("n2", devices=(bad,)),
        node("n3", devices=1, wish="cordoned"),
        node("n4", devices=1),
    )
    one = model("qwen", gpus=1)
    fleet.serve(one)
    fleet.failures["qwen", "n4"] = StartFailure(
        model="qwen", node="n4", count=2, last=fleet.now, words="out of memory"
    )
    told = explain(one, one.profiles[0], fleet.desired(), fleet.observed(), fleet.now)
    assert [(c.node, c.verdict.kind, c.verdict.rule) for c in told] == [
        ("n1", "fits", "all"),
        ("n2", "never", "devices"),
        ("n3", "not_now", "wish"),
        ("n4", "not_now", "failures"),
    ]
    assert told[0].devices == ("GPU-n1-0",)
    assert set(told[0].scores) == {"spread", "weights", "fit", "memory"}
    assert "failed to start it 2 times (out of memory)" in told[3].verdict.words


def test_explain_says_of_failed_starts_what_a_pass_does_with_them():
    """Where nothing else fits it is tried again; that it waits is said only while it does."""
    fleet = Fleet()
    fleet.join(node("n1", devices=1), node("n2", devices=1))
    one = model("qwen", gpus=1)
    fleet.serve(one)
    fleet.failures["qwen", "n1"] = StartFailure(
        model="qwen", node="n1", count=3, last=fleet.now, words="bad file"
    )

    def told() -> list[tuple[str, str]]:
        found = explain(one, one.profiles[0], fleet.desired(), fleet.observed(), fleet.now)
        return [(c.verdict.kind, c.verdict.words) for c in found]

    failed = "n1: failed to start it 3 times (bad file)"
    assert told() == [("not_now", f"{failed}; waits 20s before the next try"), ("fits", "")]
    fleet.wait(20)
    assert told() == [
        ("not_now", f"{failed}; is taken again where no other node fits"),
        ("fits", ""),
    ]
    fleet.change("n2", liveness="lost")
    lost = ("not_now", "n2: is lost; nothing new is placed there")
    assert told() == [("fits", ""), lost]
    fleet.readings["n1"] = (DeviceSample(uuid="GPU-n1-0", foreign=(ForeignProcess(pid=1),)),)
    used = "n1: 0 of 1 GPU free, needs 1: gpu0 used by a process (pid 1), not llmgw's"
    assert told() == [("not_now", used), lost]


def test_no_outdated_replica_is_stopped_while_its_successor_waits_on_another_node():
    fleet = serving(nodes=2, devices=1)
    assert fleet.replicas["qwen-000001"].shards[0].node == "n1"
    fleet.serve(model("qwen", gpus=1, context=8192))
    fleet.failures["qwen", "n2"] = StartFailure(
        model="qwen", node="n2", count=1, last=fleet.now, words="why"
    )
    plan = fleet.turn()
    assert plan.steps == ()
    assert "failed to start it once (why)" in plan.refusals[0].words
    fleet.wait(10)
    assert kinds(fleet) == [StartReplica]


def test_a_replica_of_several_nodes_is_stopped_when_all_of_them_can_be_told():
    ports = (Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0x1"),)
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=1, inventory={"ports": ports}) for k in (1, 2)))
    fleet.serve(model("huge", gpus=1, nodes=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("huge", gpus=1, nodes=2, replicas=0))
    fleet.change("n2", liveness="unreachable")
    assert fleet.turn().steps == ()
    fleet.change("n2", liveness="ready")
    assert kinds(fleet) == [DrainReplica]
    fleet.wait(2)
    (stop,) = fleet.turn().steps
    assert isinstance(stop, StopReplica)
    assert stop.shards == (("n1", 0), ("n2", 1))
