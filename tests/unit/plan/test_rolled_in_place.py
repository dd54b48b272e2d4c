"""What is rolled where there is no room for both keeps its place: its successor has it."""

import msgspec

from llmgw.model.shard import FAILED
from llmgw.plan.backoff import ELSEWHERE_AFTER, PATIENCE
from llmgw.plan.drain import HANGS_AFTER
from llmgw.plan.records import Plan, StartFailure
from tests.unit.plan.fleet import Fleet, model, node


def fleet_of(devices: int, **replicas: int) -> Fleet:
    """Return a fleet with one node on which models serve, one device each replica."""
    fleet = Fleet()
    fleet.join(node("n1", devices=devices))
    for name, number in replicas.items():
        fleet.serve(model(name, gpus=1, replicas=number, roll_when_stale=True, arguments=("a",)))
    fleet.turn()
    fleet.all_ready()
    return fleet


def changed(fleet: Fleet, name: str) -> None:
    known = fleet.models[name]
    anew = (msgspec.structs.replace(known.profiles[0], arguments=("b",)),)
    fleet.serve(msgspec.structs.replace(known, profiles=anew))


def goes_on(fleet: Fleet, passes: int = 40) -> Plan:
    """Let passes go by, each with what it started ready and what it stopped gone."""
    for _ in range(passes):
        fleet.turn()
        fleet.all_ready()
        fleet.all_stopped()
        fleet.wait(5)
    return fleet.turn()


def running(fleet: Fleet) -> list[tuple[str | None, bool]]:
    """Return the model of each replica, and whether it is as its entry says."""
    found = []
    for one in fleet.replicas.values():
        spec = fleet.specs[one.id, 0]
        found.append((one.model, tuple(spec.arguments or ()) == ("b",)))
    return sorted(found)


def test_an_equal_that_waits_does_not_get_the_place_of_what_is_rolled():
    fleet = fleet_of(1, old=1)
    fleet.serve(model("a-new", gpus=1, arguments=("b",)))
    assert [one.model for one in fleet.turn().refusals] == ["a-new"]
    changed(fleet, "old")
    goes_on(fleet)
    assert running(fleet) == [("old", True)]


def test_more_than_the_least_is_rolled_beside_an_equal_that_has_not_even_that():
    fleet = fleet_of(3, old=3)
    fleet.serve(model("a-new", gpus=1, arguments=("b",)))
    changed(fleet, "old")
    goes_on(fleet)
    assert running(fleet) == [("old", True)] * 3


def test_what_wants_more_than_there_is_is_rolled_all_the_same():
    fleet = fleet_of(2, old=5)
    fleet.serve(model("a-new", gpus=1, arguments=("b",)))
    changed(fleet, "old")
    last = goes_on(fleet)
    assert running(fleet) == [("old", True)] * 2
    assert sorted(one.model for one in last.refusals) == ["a-new", "old"]


def test_a_higher_priority_gets_the_place_nevertheless():
    fleet = fleet_of(1, old=1)
    fleet.busy("old-000001", 1)
    changed(fleet, "old")
    fleet.turn()
    fleet.busy("old-000001", 0)
    fleet.serve(model("z-high", gpus=1, priority=5, arguments=("b",)))
    goes_on(fleet)
    assert running(fleet) == [("z-high", True)]


def test_where_it_failed_too_often_it_is_rolled_when_others_would_give_way_again():
    fleet = fleet_of(2, old=2)
    changed(fleet, "old")
    fleet.failures["old", "n1"] = StartFailure(
        model="old", node="n1", count=ELSEWHERE_AFTER, last=fleet.now, words="no such file"
    )
    fleet.wait(PATIENCE - 1)
    assert fleet.turn().steps == ()
    fleet.wait(1)
    goes_on(fleet)
    assert running(fleet) == [("old", True)] * 2


def test_what_failed_and_is_still_shown_does_not_count_as_one_that_hangs():
    fleet = fleet_of(1, old=1)
    fleet.withdraw("old")
    fleet.turn()
    fleet.wait(5)
    fleet.turn()
    fleet.wait(fleet.settings.reconcile.drain_limit + HANGS_AFTER)
    assert "does not end" in fleet.turn().sentence
    fleet.state("old-000001", FAILED, "it ended")
    assert "does not end" not in fleet.turn().sentence
