"""The lint over plans finds what must never be carried out."""

import msgspec
import pytest

from llmgw.model.shard import ShardSpec
from llmgw.plan.check import check
from llmgw.plan.records import (
    Assignment,
    Booking,
    NodeRoom,
    Observed,
    Plan,
    StartReplica,
    StopReplica,
)
from tests.unit.plan.fleet import Fleet, gpu, mig, model, node


def fleet() -> Fleet:
    one = Fleet()
    one.join(node("n1", devices=2, memory_gb=16), node("n2", memory_gb=16))
    one.serve(model("qwen"))
    return one


def start(
    replica: str = "new", node_: str = "n1", *, devices=(), memory: int | None = None, **more
) -> StartReplica:
    spec = ShardSpec(
        replica=more.get("of", replica),
        rank=more.get("rank", 0),
        model="qwen",
        profile="default",
        fingerprint="f",
        engine="simulated",
        devices=devices,
        memory_bytes=memory,
    )
    return StartReplica(
        replica=replica,
        model=more.get("model", "qwen"),
        profile="default",
        shards=(Assignment(node=node_, spec=spec),),
        words="",
    )


def stop(replica: str, *shards: tuple[str, int]) -> StopReplica:
    return StopReplica(replica=replica, shards=shards, words="")


def found(one: Fleet, *steps: StartReplica | StopReplica, observed: Observed | None = None) -> str:
    plan = Plan(number=1, parent=None, steps=steps, sentence="")
    problems = check(plan, one.desired(), observed or one.observed())
    assert all(problem.path for problem in problems)
    return "; ".join(problem.words for problem in problems)


def test_a_sound_plan_has_no_problem():
    one = fleet()
    plan = one.turn()
    (replica,) = one.replicas
    assert found(one, stop(replica, (one.replicas[replica].shards[0].node, 0))) == ""
    assert plan.steps


def test_a_device_that_is_held_is_not_given_out_again():
    one = fleet()
    one.bookings["n1"] = [Booking(replica="x", rank=0, devices=("GPU-n1-0",))]
    assert found(one, start(devices=("GPU-n1-0",))) == "n1: GPU-n1-0 is held by x"
    assert found(one, start(devices=("GPU-n1-1",))) == ""


def test_a_device_is_given_out_once_a_plan_and_stays_held_by_what_is_stopped_in_it():
    one = fleet()
    twice = start("a", devices=("GPU-n1-0",)), start("b", devices=("GPU-n1-0",))
    assert found(one, *twice) == "n1: GPU-n1-0 is held by a"
    one.bookings["n1"] = [Booking(replica="x", rank=0, devices=("GPU-n1-0",))]
    both = stop("x", ("n1", 0)), start(devices=("GPU-n1-0",))
    assert found(one, *both) == "n1: GPU-n1-0 is held by x"


@pytest.mark.parametrize(
    ("holds", "wants"), [("MIG-n3-0-1", "GPU-n3-0"), ("GPU-n3-0", "MIG-n3-0-1")]
)
def test_a_card_and_its_instance_are_one(holds: str, wants: str):
    one = fleet()
    one.join(node("n3", devices=(gpu("n3", 0), mig("n3", 0, 1))))
    one.bookings["n3"] = [Booking(replica="x", rank=0, devices=(holds,))]
    assert "is held by x" in found(one, start(node_="n3", devices=(wants,)))


def test_a_device_that_is_absent_or_unhealthy_is_not_given_out():
    one = fleet()
    bad = msgspec.structs.replace(gpu("n3", 0), unhealthy=("xid 79",))
    one.join(node("n3", devices=(bad,)))
    assert found(one, start(node_="n3", devices=("GPU-n3-0",))) == "n3: GPU-n3-0 is unhealthy"
    assert found(one, start(devices=("GPU-zz",))) == "n1: there is no device GPU-zz"


def test_memory_is_not_given_out_beyond_what_there_is():
    one = fleet()
    one.bookings["n2"] = [Booking(replica="x", rank=0, memory_bytes=10 * 10**9)]
    assert found(one, start(node_="n2", memory=6 * 10**9)) == ""
    assert "16000000001 of 16000000000 bytes" in found(one, start(node_="n2", memory=6 * 10**9 + 1))
    two = start("a", "n1", memory=9 * 10**9), start("b", "n1", memory=9 * 10**9)
    assert "18000000000 of 16000000000" in found(one, *two)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"liveness": "unreachable"}, "n1 is unreachable"),
        ({"liveness": "lost"}, "n1 is lost"),
        ({"liveness": None}, "n1 is not heard of yet"),
        ({"wish": "cordoned"}, "n1 is cordoned"),
        ({"wish": "draining"}, "n1 is draining"),
    ],
)
def test_nothing_starts_on_a_node_that_is_not_ready(fields, words: str):
    one = fleet()
    one.change("n1", **fields)
    assert found(one, start()) == words
    assert found(one, start(node_="n9")) == "n9: there is no such node"


def test_what_is_not_there_is_not_stopped():
    one = fleet()
    assert found(one, stop("x", ("n1", 0))) == "x/0 is not on n1"
    assert found(one, stop("x")) == "x: stops no shard"
    one.turn()
    assert found(one, stop("qwen-000001", ("n1", 0))) == "qwen-000001/0 is not on n1"


def test_a_replica_is_in_a_plan_once_and_new_when_it_starts():
    one = fleet()
    assert found(one, start("a"), start("a", "n2")) == "a is in the plan twice"
    one.turn()
    assert found(one, start("qwen-000001")) == "qwen-000001 is there already"


def test_a_stopped_cluster_and_an_unsettled_fleet_start_nothing():
    one = fleet()
    one.stop_cluster()
    assert found(one, start()) == "starts something while the cluster is stopped"
    one.stop_cluster(stopped=False)
    one.settled = False
    assert "has not settled" in found(one, start())


def test_shards_are_of_their_replica_in_ranks_from_0_and_of_the_catalog():
    one = fleet()
    assert found(one, start(of="b")) == "new has a shard of b"
    assert found(one, start(rank=1)) == "new has the ranks [1]"
    assert found(one, start(model="llama")) == "llama is not in the catalog"
    empty = msgspec.structs.replace(start(), shards=())
    assert found(one, empty) == "new has no shards"


def test_a_start_that_is_not_reported_yet_holds_its_devices():
    one = fleet()
    one.serve(model("qwen", gpus=1))
    one.turn()
    seen = one.observed()
    unreported = msgspec.structs.replace(
        seen, nodes=tuple(NodeRoom(node=room.node) for room in seen.nodes)
    )
    assert "is held by qwen-000001" in found(one, start(devices=("GPU-n1-0",)), observed=unreported)
