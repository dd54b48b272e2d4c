"""The lint over plans finds what must never be carried out."""

from typing import Any

import msgspec
import pytest

from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.fabric import Port, SubnetManager
from llmgw.model.shard import Rendezvous, ShardSpec
from llmgw.plan.check import check
from llmgw.plan.records import (
    Assignment,
    Booking,
    EvictReplica,
    KeepReplica,
    NodeRoom,
    Observed,
    Plan,
    PreemptReplica,
    StartReplica,
    Step,
    StopReplica,
)
from tests.unit.plan.fleet import Fleet, gpu, mig, model, node
from tests.unit.plan.placement_scripts import CLUSTER, ib, roce, tray


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
        cpu_cores=more.get("cores"),
    )
    return StartReplica(
        replica=replica,
        model=more.get("model", "qwen"),
        profile="default",
        shards=(Assignment(node=node_, spec=spec, device_memory_bytes=more.get("need")),),
        words="",
    )


def stop(replica: str, *shards: tuple[str, int]) -> StopReplica:
    return StopReplica(replica=replica, shards=shards, words="")


def found(one: Fleet, *steps: Step, observed: Observed | None = None) -> str:
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


def test_cores_are_not_given_out_beyond_what_there_are():
    one = fleet()
    one.bookings["n2"] = [Booking(replica="x", rank=0, cpu_cores=10)]
    assert found(one, start(node_="n2", cores=6)) == ""
    assert found(one, start(node_="n2", cores=7)) == "n2: 17 of 16 CPU cores are given out"


def test_a_card_and_its_instance_are_not_given_to_one_shard():
    one = fleet()
    one.join(node("n3", devices=(gpu("n3", 0), mig("n3", 0, 1))))
    words = found(one, start(node_="n3", devices=("GPU-n3-0", "MIG-n3-0-1")))
    assert "n3: MIG-n3-0-1 is held by new" in words
    assert "devices of several classes are given together" in words
    twice = found(one, start(node_="n3", devices=("MIG-n3-0-1", "MIG-n3-0-1")))
    assert "2 MIG instances are given together" in twice


def test_a_card_that_others_use_or_that_has_too_little_memory_left_is_not_given_out():
    one = fleet()
    stranger = ForeignProcess(pid=7, memory_bytes=10**9)
    one.readings["n1"] = (DeviceSample(uuid="GPU-n1-0", foreign=(stranger,)),)
    assert "is used by the process 7" in found(one, start(devices=("GPU-n1-0",)))
    used = DeviceSample(
        uuid="GPU-n1-0", memory_used_bytes=21 * 10**9, memory_total_bytes=80 * 10**9
    )
    one.readings["n1"] = (used,)
    assert "21000000000 of 80000000000 bytes of GPU-n1-0 are used" in found(
        one, start(devices=("GPU-n1-0",))
    )
    one.readings["n1"] = (msgspec.structs.replace(used, memory_used_bytes=10**9),)
    assert found(one, start(devices=("GPU-n1-0",), need=79 * 10**9)) == ""
    assert "80000000000 are needed" in found(one, start(devices=("GPU-n1-0",), need=80 * 10**9))


def test_nothing_starts_on_a_node_that_is_lent_or_has_not_said_what_it_runs():
    one = fleet()
    one.rooms["n1"] = {"lent": "Slurm"}
    assert found(one, start()) == "n1 is lent to Slurm"
    one.rooms.clear()
    waited = msgspec.structs.replace(one.observed(), waiting_for=("n1",))
    assert found(one, start(), observed=waited) == "n1 has not reported what it runs"


def wide(*nodes: str, world: int | None = None, at: str = "192.0.2.1", **spec) -> StartReplica:
    """A start on several nodes, one card each."""
    meeting = Rendezvous(address=at, port=29500, world=world or len(nodes))
    shards = tuple(
        msgspec.structs.replace(
            start(node_=name, devices=(f"GPU-{name}-0",), rank=rank).shards[0],
            spec=msgspec.structs.replace(
                start(node_=name, devices=(f"GPU-{name}-0",), rank=rank).shards[0].spec,
                **{"rendezvous": meeting, **spec},
            ),
        )
        for rank, name in enumerate(nodes)
    )
    return msgspec.structs.replace(start(), shards=shards)


def wired(**ports: tuple[Port, ...]) -> Fleet:
    one = Fleet()
    for name, there in ports.items():
        one.join(node(name, devices=1, inventory={"ports": there}))
    one.serve(model("qwen"))
    return one


def test_a_replica_of_several_nodes_is_on_one_physical_network():
    one = wired(a=(ib("0xa"),), b=(ib("0xa"), roce("10.0.0.0/24")), c=(ib("0xc"),), d=())
    assert found(one, wide("a", "b")) == ""
    assert found(one, wide("a", "c")) == "new: a, c share no physical network"
    assert found(one, wide("a", "d")) == "new: a, d share no physical network"
    down = wired(a=(ib("0xa"),), b=(ib("0xa", state="1: DOWN"),))
    assert found(down, wide("a", "b")) == "new: a, b share no physical network"
    told = wide("a", "b", network_ports=("mlx5_0/1", "mlx5_8/1"))
    assert found(one, told) == "new: its ports on b are on 2 networks"


def test_one_name_joins_no_two_fabrics_and_no_node_that_can_tell_with_one_that_cannot():
    torn = (ib("0xa", 0, fabric="ib"), ib("0xb", 1, fabric="ib"))
    one = wired(a=(ib("0xa", fabric="ib"),), b=torn, c=(ib(None, fabric="ib"),))
    assert found(one, wide("a", "b")) == "b: its ports of fabric ib are on 2 networks"
    assert found(one, wide("a", "c")) == "new: a, c share no physical network"


def test_managers_that_are_listed_together_are_of_one_fabric():
    one = wired(a=(ib("0xa"),), b=(ib("0xb"),))
    listed = (SubnetManager(guid="0xa", master_guid="0xb"),)
    one.change_inventory("b", subnet_managers=listed)
    assert found(one, wide("a", "b")) == ""


def test_shards_meet_at_rank_0_on_different_nodes_and_have_one_class():
    one = wired(a=(ib("0xa"),), b=(ib("0xa"),))
    assert "meet at 198.51.100.9, not at its rank 0" in found(
        one, wide("a", "b", at="198.51.100.9")
    )
    assert "3 shards meet" in found(one, wide("a", "b", world=3))
    told = wide("a", "b").shards[0].spec.rendezvous
    assert told is not None
    right = msgspec.structs.replace(told, nodes=("a", "b"))
    assert found(one, wide("a", "b", rendezvous=right)) == ""
    wrong = msgspec.structs.replace(told, nodes=("b", "a"))
    assert found(one, wide("a", "b", rendezvous=wrong)) == "new: its shards are told to be on b, a"
    assert "has two shards on one node" in found(one, wide("a", "a"))
    other = msgspec.structs.replace(gpu("b", 0, "a100-80g"))
    one.change_inventory("b", devices=(other,))
    assert "has devices of several classes: a100-80g, h100-80g" in found(one, wide("a", "b"))
    alone = start()
    spec = msgspec.structs.replace(alone.shards[0].spec, nvlink_domain="c/1")
    alone = msgspec.structs.replace(
        alone, shards=(msgspec.structs.replace(alone.shards[0], spec=spec),)
    )
    one.join(node("n1"))
    assert found(one, alone) == "new of one node is told to meet others"


def test_shards_of_an_nvlink_domain_are_joined_to_it_with_imex_up():
    one = Fleet()
    one.join(tray("a"), tray("b"), tray("c", imex=False), tray("d", clique=8))
    one.join(tray("e", features=("shards",)))
    one.serve(model("qwen"))
    domain: dict[str, Any] = {"nvlink_domain": f"{CLUSTER}/7"}
    assert found(one, wide("a", "b", **domain)) == ""
    assert found(one, wide("a", "c", **domain)) == "c: nvidia-imex is not known to be up"
    assert f"d: GPU-d-0 is not joined to the NVLink domain {CLUSTER}/7" in found(
        one, wide("a", "d", **domain)
    )
    assert found(one, wide("a", "e", **domain)) == "e: its agent knows nothing of NVLink domains"
    mixed = wide("a", "b", **domain)
    spec = msgspec.structs.replace(mixed.shards[1].spec, nvlink_domain=None)
    shards = (mixed.shards[0], msgspec.structs.replace(mixed.shards[1], spec=spec))
    apart = msgspec.structs.replace(mixed, shards=shards)
    assert found(one, apart) == "new has shards in several NVLink domains"


@pytest.mark.parametrize(
    ("step", "priority", "sound"),
    [
        (EvictReplica, 0, True),
        (EvictReplica, -1, False),
        (PreemptReplica, 1, True),
        (PreemptReplica, 0, False),
    ],
)
def test_nothing_gives_way_to_what_is_not_above_it(step, priority: int, sound: bool):
    one = fleet()
    one.turn()
    one.serve(model("llama", priority=priority))
    way = step(replica="qwen-000001", gives_way_to=("llama", "default"), words="")
    assert (found(one, way) == "") is sound
    gone = step(replica="qwen-000001", gives_way_to=("nobody", "default"), words="")
    assert "gives way to nobody, not in the catalog" in found(one, gone)


def test_only_what_was_given_up_and_not_told_to_stop_goes_on():
    one = fleet()
    one.turn()
    one.all_ready()
    keep = KeepReplica(replica="qwen-000001", words="")
    assert found(one, keep) == "qwen-000001 was not given up"
    one.drains["qwen-000001"] = (one.now, "why")
    assert found(one, keep) == ""
    one.told_to_stop.add("qwen-000001")
    assert found(one, keep) == "qwen-000001 was told to stop"
    one.told_to_stop.clear()
    one.stop_cluster()
    assert "goes on while the cluster is stopped" in found(one, keep)
    one.stop_cluster(stopped=False)
    one.withdraw("qwen")
    assert found(one, keep) == "qwen-000001 is of no model in the catalog"
