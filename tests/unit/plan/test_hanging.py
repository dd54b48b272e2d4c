"""A process that can't be killed: nobody waits for its place, and nothing more is lost to it."""

import msgspec

from llmgw.model.shard import STOPPED
from llmgw.plan.drain import HANGS_AFTER, LEAST
from llmgw.plan.records import PreemptReplica
from tests.unit.plan.fleet import Fleet, model, node


def told_to_stop(fleet: Fleet, name: str) -> float:
    """Let a model leave the catalog and its replica be told to stop; return when it drained."""
    since = fleet.now
    fleet.withdraw(name)
    fleet.turn()
    fleet.wait(LEAST)
    fleet.turn()
    return since


def test_others_give_way_elsewhere_once_a_place_does_not_become_free():
    fleet = Fleet()
    fleet.join(node("n1", devices=1, labels={"z": "1"}), node("n2", devices=1, labels={"z": "2"}))
    fleet.serve(model("old", gpus=1, node_selector={"z": "1"}))
    fleet.serve(model("batch", gpus=1, node_selector={"z": "2"}))
    fleet.turn()
    fleet.all_ready()
    fleet.busy("batch-000001", 1)
    since = told_to_stop(fleet, "old")
    fleet.serve(model("chat", gpus=1, priority=10))
    limit = fleet.settings.reconcile.drain_limit
    fleet.now = since + limit + HANGS_AFTER - 1
    assert fleet.turn().steps == ()
    fleet.wait(1)
    plan = fleet.turn()
    assert [(type(one), one.replica) for one in plan.steps] == [(PreemptReplica, "batch-000001")]
    assert plan.sentence.endswith(
        "old-000002 on n1 does not end although told to stop: not waited for"
    )


def test_a_place_on_which_one_hangs_is_held_until_it_ends():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("old", gpus=1))
    fleet.turn()
    fleet.all_ready()
    since = told_to_stop(fleet, "old")
    fleet.serve(model("chat", gpus=1))
    fleet.now = since + fleet.settings.reconcile.drain_limit + HANGS_AFTER
    plan = fleet.turn()
    assert plan.steps == ()
    assert [one.model for one in plan.refusals] == ["chat"]
    fleet.state("old-000001", STOPPED)
    assert [one.replica for one in fleet.turn().steps] == ["chat-000002"]


def rolled(devices: int) -> Fleet:
    """Three replicas of which the first to be rolled hangs when it is told to stop."""
    fleet = Fleet()
    fleet.join(node("n1", devices=devices))
    fleet.serve(model("m", gpus=1, replicas=3, roll_when_stale=True, arguments=("a",)))
    fleet.turn()
    fleet.all_ready()
    known = fleet.models["m"]
    anew = (msgspec.structs.replace(known.profiles[0], arguments=("b",)),)
    fleet.serve(msgspec.structs.replace(known, profiles=anew))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.wait(LEAST)
    fleet.turn()
    assert len(fleet.told_to_stop) == 1
    return fleet


def _rolls_on(fleet: Fleet) -> set[str]:
    """Let everything but the first go as it is told; return who is left."""
    (hangs,) = fleet.told_to_stop
    fleet.wait(fleet.settings.reconcile.drain_limit + HANGS_AFTER)
    for _ in range(8):
        fleet.turn()
        fleet.all_ready()
        for name in (fleet.told_to_stop & fleet.replicas.keys()) - {hangs}:
            fleet.state(name, STOPPED)
        fleet.wait(LEAST)
    return {one.fingerprint or "" for one in fleet.replicas.values() if one.id != hangs}


def test_a_roll_goes_on_past_one_that_hangs():
    assert len(_rolls_on(rolled(devices=5))) == 1


def test_where_one_hangs_no_other_is_stopped_to_make_room():
    fleet = rolled(devices=4)
    serving = {one.id for one in fleet.replicas.values() if one.state == "ready"}
    _rolls_on(fleet)
    assert {one.id for one in fleet.replicas.values() if one.state == "ready"} == serving
