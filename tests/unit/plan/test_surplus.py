"""One plan never gives up as too many what it then takes the others of."""

import msgspec
import pytest

from llmgw.model.shard import READY, STARTING
from llmgw.plan.records import PreemptReplica
from tests.unit.plan.fleet import Fleet, model, node


@pytest.mark.parametrize("newest", [READY, STARTING])
def test_what_is_too_many_stays_where_the_others_give_way(newest: str):
    fleet = Fleet()
    fleet.join(node("n0", devices=1), node("n1", devices=1, labels={"z": "1"}))
    fleet.serve(model("c", gpus=1, replicas=2))
    fleet.turn()
    on = {one.shards[0].node: one.id for one in fleet.replicas.values()}
    fleet.state(on["n1"], READY)
    fleet.wait(5)
    if newest == READY:
        fleet.state(on["n0"], READY)
    for name in fleet.replicas:
        fleet.busy(name, 1)
    known = fleet.models["c"]
    one = (msgspec.structs.replace(known.profiles[0], replicas=1),)
    fleet.serve(msgspec.structs.replace(known, profiles=one))
    fleet.serve(model("a", gpus=1, priority=1, node_selector={"z": "1"}))
    plan = fleet.turn()
    assert [(type(step), step.replica) for step in plan.steps] == [(PreemptReplica, on["n1"])]
    assert [refusal.model for refusal in plan.refusals] == ["a"]


def test_what_is_too_many_goes_where_nobody_of_it_gives_way():
    fleet = Fleet()
    fleet.join(node("n0", devices=1), node("n1", devices=1, labels={"z": "1"}))
    fleet.serve(model("c", gpus=1, replicas=2))
    fleet.turn()
    fleet.all_ready()
    fleet.wait(5)
    known = fleet.models["c"]
    one = (msgspec.structs.replace(known.profiles[0], replicas=1),)
    fleet.serve(msgspec.structs.replace(known, profiles=one))
    assert len(fleet.turn().steps) == 1
