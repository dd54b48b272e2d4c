"""Planner scripts about what becomes of replicas: nodes that are lost and return, ends, drains."""

import msgspec

from llmgw.model.catalog import (
    BETTER,
    ORIGINAL,
    REPLACE,
    Disconnect,
    Model,
    Profile,
    Scaling,
)
from llmgw.model.fabric import Port
from llmgw.model.node import WeightsHeld
from llmgw.model.shard import FAILED, READY
from llmgw.model.weights import cache_name
from llmgw.plan.records import StartReplica
from tests.unit.plan.fleet import Fleet, model, node
from tests.unit.plan.scripts import SOURCE


def mass_loss() -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"gpu-0{n}", devices=1) for n in range(1, 7)))
    fleet.serve(model("qwen", gpus=1, replicas=3, disconnect=Disconnect(policy=REPLACE, after=0)))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(100)
    fleet.say("the control plane's own switch fails: nobody is heard but gpu-06")
    for n in range(1, 6):
        fleet.change(f"gpu-0{n}", liveness="unreachable")
    fleet.turn()
    fleet.wait(45)
    for n in range(1, 6):
        fleet.change(f"gpu-0{n}", liveness="lost", since=fleet.now - 45)
    fleet.turn()
    fleet.wait(600)
    fleet.turn()
    for n in range(1, 5):
        fleet.change(f"gpu-0{n}", liveness="ready")
    fleet.say("gpu-05 stays away")
    fleet.turn()
    fleet.wait(15)
    fleet.turn()
    return fleet


def _replaced(on_return: str, **more) -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1, **more))
    policy = Disconnect(policy=REPLACE, after=120, on_return=on_return)
    fleet.serve(model("qwen", gpus=1, source=SOURCE, disconnect=policy))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(10)
    (first,) = fleet.replicas.values()
    away = first.shards[0].node
    fleet.change(away, liveness="lost")
    fleet.turn()
    fleet.wait(119)
    fleet.turn()
    fleet.wait(1)
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.wait(60)
    fleet.change(away, liveness="ready")
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def replaced_and_the_newer_stays() -> Fleet:
    return _replaced("newer")


def replaced_and_the_original_stays() -> Fleet:
    return _replaced(ORIGINAL)


def replaced_and_the_better_stays() -> Fleet:
    held = WeightsHeld(name=cache_name(SOURCE), size_bytes=250_000_000, complete=True)
    return _replaced(BETTER, inventory={"weights": (held,)})


def crash_loop() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    for waits in ((), (4, 1), (), (4,), (1,)):
        fleet.all_ready()
        fleet.wait(30)
        for name, replica in sorted(fleet.replicas.items()):
            if replica.state == READY:
                fleet.state(name, FAILED, "SIGSEGV in the attention kernel")
        fleet.turn()
        for seconds in waits:
            fleet.wait(seconds)
            fleet.turn()
    return fleet


def drain_with_replies_in_flight() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    for name in tuple(fleet.replicas):
        fleet.busy(name, 1)
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.wait(60)
    fleet.turn()
    (drained,) = fleet.drains
    fleet.busy(drained, 0)
    fleet.turn()
    fleet.all_stopped()
    fleet.say("the other is given up too, and a gateway is away")
    fleet.serve(model("qwen", gpus=1, replicas=0))
    (other,) = fleet.replicas
    fleet.busy(other, None)
    fleet.turn()
    fleet.wait(599)
    fleet.turn()
    fleet.wait(1)
    fleet.turn()
    return fleet


def shard_of_several_fails_while_it_serves() -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"gpu-0{n}", devices=8, memory_gb=512) for n in (1, 2)))
    port = Port(adapter="mlx5_0", number=1, state="4: ACTIVE", fabric="ib", master_guid="0xa")
    for name in ("gpu-01", "gpu-02"):
        fleet.change_inventory(name, ports=(port,))
    fleet.serve(model("huge", gpus=8, nodes=2))
    (start,) = fleet.turn().steps
    assert isinstance(start, StartReplica)
    fleet.all_ready()
    huge = fleet.replicas[start.replica]
    first, second = huge.shards
    failed = msgspec.structs.replace(second, state="failed")
    fleet.replicas[start.replica] = msgspec.structs.replace(
        huge, state=FAILED, reason="the worker ended", shards=(first, failed)
    )
    fleet.say("rank 1 ends: rank 0 is stopped, and nothing is started where it still is")
    fleet.turn()
    stopped = msgspec.structs.replace(first, state="stopped")
    fleet.replicas[start.replica] = msgspec.structs.replace(
        fleet.replicas[start.replica], shards=(stopped, failed)
    )
    fleet.say("rank 0 is gone")
    fleet.turn()
    return fleet


def edit_in_the_middle_of_a_roll() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=3))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("qwen", gpus=1, replicas=2, context=8192))
    fleet.turn()
    fleet.serve(model("qwen", gpus=1, replicas=2, context=16384))
    fleet.turn()
    fleet.all_stopped()
    for _ in range(3):
        fleet.turn()
        fleet.all_ready()
        fleet.turn()
        fleet.all_stopped()
    fleet.turn()
    return fleet


def scaled_by_load() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2), node("gpu-02", devices=2))
    rule = Scaling(in_flight=4, window=30, down_window=120)
    fleet.serve(model("qwen", gpus=1, max_replicas=3, scaling=rule))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("qwen-000001", 9)
    fleet.turn()
    fleet.wait(30)
    fleet.turn()
    fleet.all_ready()
    for name in fleet.replicas:
        fleet.busy(name, 1)
    fleet.turn()
    fleet.wait(120)
    fleet.turn()
    fleet.busy("qwen-000002", 0)
    fleet.busy("qwen-000003", 0)
    fleet.all_stopped()
    fleet.turn()
    return fleet


def scaled_to_zero_and_back() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1))
    fleet.serve(model("qwen", gpus=1, scaling=Scaling(idle_stop=600)))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.wait(599)
    fleet.turn()
    fleet.wait(1)
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    fleet.waiting("qwen", 1)
    fleet.turn()
    fleet.all_ready()
    fleet.waiting("qwen", 0)
    fleet.turn()
    return fleet


def last_replica_until_it_is_idle() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1, replicas=0, max_replicas=1, scaling=Scaling(idle_stop=3600)))
    fleet.serve(model("gemma", gpus=1, replicas=0, max_replicas=1))
    fleet.turn()
    for name in ("qwen", "gemma"):
        fleet.waiting(name, 1)
    fleet.turn()
    fleet.all_ready()
    for name in ("qwen", "gemma"):
        fleet.waiting(name, 0)
    fleet.turn()
    for seconds in (299, 1, 3299, 1):
        fleet.wait(seconds)
        fleet.turn()
        fleet.all_stopped()
    return fleet


def two_profiles_for_a_request() -> Fleet:
    fleet = Fleet()
    fleet.join(node("cpu-01"))
    profiles = (
        Profile(name="gpu", engine="simulated", gpus=1, replicas=0, max_replicas=1),
        Profile(name="cpu", engine="simulated", replicas=0, max_replicas=1, cpu_cores=4),
    )
    fleet.serve(Model(name="qwen", profiles=profiles))
    fleet.turn()
    fleet.waiting("qwen", 1)
    fleet.turn()
    fleet.all_ready()
    fleet.waiting("qwen", 0)
    fleet.join(node("gpu-01", devices=1))
    fleet.turn()
    fleet.wait(300)
    fleet.turn()
    fleet.all_stopped()
    fleet.waiting("qwen", 1)
    fleet.turn()
    return fleet


def no_profile_for_a_request() -> Fleet:
    fleet = Fleet()
    fleet.join(node("cpu-01", cpus=2))
    profiles = (
        Profile(name="gpu", engine="simulated", gpus=1, replicas=0, max_replicas=1),
        Profile(name="cpu", engine="simulated", replicas=0, max_replicas=1, cpu_cores=4),
    )
    fleet.serve(Model(name="qwen", profiles=profiles))
    fleet.turn()
    fleet.waiting("qwen", 1)
    fleet.turn()
    fleet.waiting("qwen", 0)
    fleet.wait(100)
    fleet.turn()
    fleet.join(node("cpu-02", cpus=16))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def one_that_starts_stays_before_one_on_a_lost_node() -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"gpu-0{n}", devices=1) for n in (1, 2, 3)))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.change("gpu-01", wish="draining")
    fleet.turn()
    fleet.change("gpu-02", liveness="lost")
    fleet.turn()
    fleet.say("gpu-01 stays after all: three are there, and one of them out of reach")
    fleet.change("gpu-01", wish=None)
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.change("gpu-02", liveness="ready")
    fleet.turn()
    return fleet


SCRIPTS = (
    one_that_starts_stays_before_one_on_a_lost_node,
    mass_loss,
    replaced_and_the_newer_stays,
    replaced_and_the_original_stays,
    replaced_and_the_better_stays,
    crash_loop,
    drain_with_replies_in_flight,
    shard_of_several_fails_while_it_serves,
    edit_in_the_middle_of_a_roll,
    scaled_by_load,
    scaled_to_zero_and_back,
    last_replica_until_it_is_idle,
    two_profiles_for_a_request,
    no_profile_for_a_request,
)
