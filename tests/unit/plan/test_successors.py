"""How many count while one replica takes the place of another."""

import msgspec

from llmgw.model.catalog import Scaling
from tests.unit.plan.fleet import Fleet, model, node


def test_a_new_leader_amid_a_roll_counts_an_outdated_one_and_its_successor_once():
    fleet = Fleet()
    fleet.join(node("n1", devices=4))
    rule = Scaling(in_flight=10)
    rolls = model("m", gpus=1, max_replicas=4, roll_when_stale=True, arguments=("a",), scaling=rule)
    fleet.serve(rolls)
    fleet.turn()
    fleet.all_ready()
    anew = (msgspec.structs.replace(rolls.profiles[0], arguments=("b",)),)
    fleet.serve(msgspec.structs.replace(rolls, profiles=anew))
    fleet.wait(100)
    fleet.turn()
    assert sorted(one.state or "" for one in fleet.replicas.values()) == ["ready", "starting"]
    fleet.scales = {}
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.all_stopped()
    assert fleet.turn().steps == ()
    assert list(fleet.replicas) == ["m-000002"]
