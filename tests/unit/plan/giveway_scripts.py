"""Planner scripts about priorities: who gives way, and to whom."""

from llmgw.model.catalog import Scaling
from llmgw.model.shard import FAILED, STARTING
from tests.unit.plan.fleet import Fleet, model, node


def pre_emption_by_priority() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2), node("gpu-02", devices=2))
    fleet.serve(model("batch", gpus=1, replicas=4))
    fleet.turn()
    fleet.all_ready()
    for name in tuple(fleet.replicas):
        fleet.busy(name, 2)
    fleet.serve(model("chat", gpus=2, priority=10))
    plan = fleet.turn()
    for step in plan.steps:
        fleet.busy(step.replica, 0)
    fleet.all_stopped()
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.withdraw("chat")
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def idle_ones_give_way_first() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("busy", gpus=1))
    fleet.serve(model("rests", gpus=1, priority=5, scaling=Scaling(idle_stop=3600)))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(100)
    fleet.busy("busy-000002", 3)
    fleet.say("a request would start rests again; nobody would start busy again but its priority")
    fleet.serve(model("chat", gpus=1, priority=10))
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    fleet.all_ready()
    fleet.waiting("rests", 1)
    fleet.turn()
    return fleet


def spare_of_an_equal_gives_way_and_its_last_does_not() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    rule = Scaling(in_flight=1, window=0, down_window=3600)
    fleet.serve(model("wide", gpus=1, max_replicas=2, scaling=rule))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("wide-000001", 2)
    fleet.turn()
    fleet.all_ready()
    fleet.busy("wide-000001", 0)
    fleet.turn()
    fleet.wait(100)
    fleet.serve(model("chat", gpus=1))
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    fleet.all_ready()
    fleet.wait(100)
    fleet.serve(model("more", gpus=1))
    fleet.turn()
    return fleet


def spare_of_a_higher_priority_stays() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    rule = Scaling(in_flight=1, window=0, down_window=3600)
    fleet.serve(model("wide", gpus=1, max_replicas=2, priority=10, scaling=rule))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("wide-000001", 2)
    fleet.turn()
    fleet.all_ready()
    fleet.busy("wide-000001", 0)
    fleet.wait(100)
    fleet.serve(model("low", gpus=1))
    fleet.turn()
    return fleet


def _fails(fleet: Fleet, name: str) -> None:
    """Let what starts of a model fail, and everything else begin to serve or come to its end."""
    for replica in tuple(fleet.replicas.values()):
        if replica.state == STARTING and replica.model == name:
            fleet.state(replica.id, FAILED, "bad file")
            del fleet.replicas[replica.id]
    fleet.all_ready()
    fleet.all_stopped()


def nobody_gives_way_twice_to_what_fails_to_start() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1))
    fleet.serve(model("batch", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("batch-000001", 1)
    fleet.serve(model("chat", gpus=1, priority=10))
    fleet.turn()
    fleet.busy("batch-000001", 0)
    fleet.all_stopped()
    fleet.say("during its first two waits its place is kept for it")
    for seconds in (5, 10):
        fleet.turn()
        _fails(fleet, "chat")
        fleet.turn()
        fleet.wait(seconds)
    fleet.turn()
    fleet.say("after the third time anybody may have it, and nobody is asked to go again")
    _fails(fleet, "chat")
    fleet.turn()
    _fails(fleet, "chat")
    fleet.wait(20)
    fleet.turn()
    fleet.wait(579)
    fleet.turn()
    fleet.say("once in ever longer spans it is tried again")
    fleet.wait(1)
    fleet.turn()
    _fails(fleet, "chat")
    fleet.turn()
    _fails(fleet, "chat")
    fleet.turn()
    fleet.wait(1199)
    fleet.turn()
    fleet.say("its entry is written anew: what was counted is forgiven")
    fleet.failures.clear()
    fleet.turn()
    return fleet


def what_fails_everywhere_is_not_tried_at_everybodys_cost() -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"gpu-0{n}", devices=1) for n in (1, 2, 3)))
    fleet.serve(model("batch", gpus=1, replicas=3))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("chat", gpus=1, priority=10))
    for _ in range(2):
        fleet.turn()
        fleet.all_stopped()
        for seconds in (5, 10, 0):
            fleet.turn()
            _fails(fleet, "chat")
            fleet.wait(seconds)
    fleet.say("three times on each of two nodes: the third node is left alone")
    fleet.turn()
    _fails(fleet, "chat")
    fleet.wait(600)
    fleet.turn()
    return fleet


def what_is_cleared_is_kept_for_whom_it_was_cleared() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=4))
    fleet.serve(model("batch", gpus=2, replicas=1, priority=1))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("batch-000001", 1)
    fleet.serve(model("huge", gpus=4, priority=10))
    fleet.serve(model("small", gpus=1))
    fleet.say("two cards are free; huge needs them too, and small must not take one")
    fleet.turn()
    fleet.busy("batch-000001", 0)
    fleet.all_stopped()
    fleet.turn()
    return fleet


def all_that_is_missing_has_its_places_cleared_at_once() -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(f"cpu-0{n}", memory_gb=25) for n in (1, 2, 3)))
    fleet.serve(model("batch", replicas=3, min_memory_gb=3))
    fleet.turn()
    fleet.all_ready()
    for name in tuple(fleet.replicas):
        fleet.busy(name, 1)
    fleet.serve(model("chat", replicas=3, priority=5, min_memory_gb=22.5))
    fleet.turn()
    for name in tuple(fleet.replicas):
        fleet.busy(name, 0)
    fleet.all_stopped()
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def some_start_some_wait_and_one_finds_no_place() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1))
    fleet.serve(model("batch", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("batch-000001", 1)
    fleet.join(node("gpu-03", devices=1, memory_gb=8))
    fleet.serve(model("chat", gpus=1, replicas=3, priority=5, min_memory_gb=16))
    fleet.say("what chat can't use is left to batch")
    fleet.turn()
    fleet.all_ready()
    fleet.busy("batch-000001", 0)
    fleet.all_stopped()
    fleet.turn()
    return fleet


def spare_that_gave_way_does_not_take_its_place_back() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    rule = Scaling(in_flight=1, window=0, down_window=3600)
    fleet.serve(model("able", gpus=1, max_replicas=2, scaling=rule))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("able-000001", 2)
    fleet.turn()
    fleet.all_ready()
    fleet.busy("able-000001", 0)
    fleet.turn()
    fleet.wait(100)
    fleet.say("able comes before chat by its name; load wants two of it, and one is its least")
    fleet.serve(model("chat", gpus=1))
    fleet.turn()
    fleet.busy("able-000002", 1)
    fleet.wait(10)
    fleet.turn()
    fleet.busy("able-000002", 0)
    fleet.all_stopped()
    fleet.turn()
    return fleet


def one_that_is_rolled_is_no_spare() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(100)
    fleet.serve(model("qwen", gpus=1, context=8192))
    fleet.turn()
    fleet.say("two of it are there, and the idle one is not one too many")
    fleet.serve(model("chat", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def roll_for_which_two_have_to_go() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=3))
    fleet.serve(model("qwen", gpus=1, replicas=2, priority=1))
    fleet.turn()
    fleet.all_ready()
    fleet.say("the new one needs all cards; batch must not have the third one meanwhile")
    fleet.serve(model("qwen", gpus=3, replicas=2, priority=1))
    fleet.serve(model("batch", gpus=1))
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def roll_after_one_of_the_old_has_ended() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=2))
    fleet.serve(model("qwen", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("qwen", gpus=2, replicas=2))
    fleet.state("qwen-000002", FAILED, "killed")
    del fleet.replicas["qwen-000002"]
    fleet.failures.clear()
    fleet.turn()
    fleet.all_stopped()
    fleet.turn()
    return fleet


def what_still_drains_is_taken_back() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1))
    fleet.serve(model("batch", gpus=1))
    fleet.serve(model("other", gpus=1))
    fleet.turn()
    fleet.all_ready()
    for name in tuple(fleet.replicas):
        fleet.busy(name, 1)
    fleet.serve(model("chat", gpus=1, replicas=2, priority=5))
    fleet.turn()
    fleet.wait(30)
    fleet.turn()
    fleet.say("chat wants one only: the other one's place is not needed")
    fleet.serve(model("chat", gpus=1, priority=5))
    fleet.turn()
    fleet.say("chat leaves: what it was told to stop is not taken back, what only drains is")
    fleet.busy("batch-000001", 0)
    fleet.busy("other-000002", 0)
    fleet.turn()
    fleet.withdraw("chat")
    fleet.turn()
    return fleet


def drained_node_is_taken_back() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1), node("gpu-02", devices=1))
    fleet.serve(model("qwen", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("qwen-000001", 1)
    fleet.change("gpu-01", wish="draining")
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.say("the successor ends, and the node is taken back while the first one still drains")
    fleet.state("qwen-000002", FAILED, "killed")
    del fleet.replicas["qwen-000002"]
    fleet.change("gpu-01", wish=None)
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def who_holds_what_is_missing_is_named() -> Fleet:
    fleet = Fleet()
    fleet.join(node("cpu-01", memory_gb=64, cpus=16))
    for number, size in enumerate((4, 20, 8, 12, 6)):
        fleet.serve(model(f"m{number}", min_memory_gb=size, cpu_cores=2))
    fleet.turn()
    fleet.all_ready()
    fleet.serve(model("large", min_memory_gb=40))
    fleet.serve(model("wide", cpu_cores=12))
    fleet.turn()
    fleet.withdraw("m1")
    fleet.turn()
    return fleet


SCRIPTS = (
    pre_emption_by_priority,
    idle_ones_give_way_first,
    spare_of_an_equal_gives_way_and_its_last_does_not,
    spare_of_a_higher_priority_stays,
    spare_that_gave_way_does_not_take_its_place_back,
    nobody_gives_way_twice_to_what_fails_to_start,
    what_fails_everywhere_is_not_tried_at_everybodys_cost,
    what_is_cleared_is_kept_for_whom_it_was_cleared,
    all_that_is_missing_has_its_places_cleared_at_once,
    some_start_some_wait_and_one_finds_no_place,
    one_that_is_rolled_is_no_spare,
    roll_for_which_two_have_to_go,
    roll_after_one_of_the_old_has_ended,
    what_still_drains_is_taken_back,
    drained_node_is_taken_back,
    who_holds_what_is_missing_is_named,
)
