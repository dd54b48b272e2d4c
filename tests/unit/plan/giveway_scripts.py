"""Planner scripts about priorities: who gives way, and to whom."""

from llmgw.model.catalog import Scaling
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


def nobody_gives_way_to_what_fails_to_start() -> Fleet:
    fleet = Fleet()
    fleet.join(node("gpu-01", devices=1))
    fleet.serve(model("chat", gpus=1, priority=10))
    (step,) = fleet.turn().steps
    fleet.state(step.replica, "failed", "bad file")
    fleet.serve(model("batch", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.wait(4)
    fleet.turn()
    fleet.wait(1)
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


SCRIPTS = (
    pre_emption_by_priority,
    idle_ones_give_way_first,
    spare_of_an_equal_gives_way_and_its_last_does_not,
    spare_of_a_higher_priority_stays,
    nobody_gives_way_to_what_fails_to_start,
    what_is_cleared_is_kept_for_whom_it_was_cleared,
)
