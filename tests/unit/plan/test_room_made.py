"""Room that is made for others: as few go as are enough, of all nodes, and it comes to rest."""

from collections import Counter

import pytest

from llmgw.model.fabric import Port
from llmgw.model.shard import READY
from llmgw.plan.drain import LEAST
from llmgw.plan.records import EvictReplica, PreemptReplica, StartReplica, StopReplica
from tests.unit.plan.fleet import Fleet, model, node

YIELDS = (EvictReplica, PreemptReplica)
PORTS: dict[str, object] = {
    "ports": (Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0x1"),)
}


def joined(*sizes: int) -> Fleet:
    """Nodes n01, n02, ... with so many cards, on one fabric; each has a label of its own."""
    fleet = Fleet()
    for number, cards in enumerate(sizes, start=1):
        name = f"n{number:02}"
        fleet.join(node(name, devices=cards, labels={"at": name}, inventory=PORTS))
    return fleet


def runs(fleet: Fleet, name: str, at: str | None = None, *, busy: int = 1, **profile) -> None:
    """Let a model serve, on one node where that is said."""
    selector = {"at": at} if at is not None else {}
    fleet.serve(model(name, gpus=1, node_selector=selector, **profile))
    fleet.turn()
    fleet.all_ready()
    for one in fleet.replicas.values():
        if one.model == name:
            fleet.busy(one.id, busy)


def goes(fleet: Fleet) -> list[str]:
    """Return the models of those that give way by the next plan."""
    plan = fleet.turn()
    models = {one.id: one.model or "" for one in fleet.replicas.values()}
    return sorted(models[step.replica] for step in plan.steps if isinstance(step, YIELDS))


def on(fleet: Fleet) -> dict[str, str]:
    """Return by model where its replicas serve."""
    return {
        one.model or "": ", ".join(shard.node for shard in one.shards)
        for one in fleet.replicas.values()
        if one.state == READY
    }


def progress(fleet: Fleet) -> None:
    """Let everything go on by itself; what serves keeps what it has to do."""
    for one in tuple(fleet.replicas.values()):
        if one.state == "draining":
            fleet.busy(one.id, 0)
            if one.id in fleet.told_to_stop:
                fleet.state(one.id, "stopped")
        elif one.state == "starting":
            fleet.state(one.id, READY)
            fleet.busy(one.id, 1)


def rest(fleet: Fleet) -> Counter[str]:
    """Let passes follow each other until nothing changes; return what was started, by model."""
    started: Counter[str] = Counter()
    plan = fleet.turn()
    started.update(step.model for step in plan.steps if isinstance(step, StartReplica))
    for _ in range(40):
        progress(fleet)
        fleet.wait(LEAST)
        plan = fleet.turn()
        started.update(step.model for step in plan.steps if isinstance(step, StartReplica))
        on_its_way = [one for one in fleet.replicas.values() if one.state != READY]
        if not plan.steps and not on_its_way:
            return started
    raise AssertionError(f"it does not come to rest: {plan.sentence}")


@pytest.mark.parametrize("cheap", [3, 40, 79])
def test_who_is_missed_least_goes_wherever_it_is(cheap: int):
    fleet = joined(*[1] * 80)
    for number in range(1, 81):
        priority = 0 if number == cheap else 3
        fleet.serve(model(f"m{number:02}", gpus=1, priority=priority,
                          node_selector={"at": f"n{number:02}"}))  # fmt: skip
    fleet.turn()
    fleet.all_ready()
    for one in fleet.replicas:
        fleet.busy(one, 1)
    fleet.serve(model("high", gpus=1, priority=9))
    assert goes(fleet) == [f"m{cheap:02}"]


@pytest.mark.parametrize("last", [False, True])
def test_one_goes_where_one_is_enough(last: bool):
    """Two small ones on each of many nodes, and one large one on another."""
    fleet = joined(*[2] * 40)
    large = 40 if last else 1
    for number in range(1, 41):
        name = f"n{number:02}"
        for half in ("a",) if number == large else ("a", "b"):
            gpus = 2 if number == large else 1
            fleet.serve(model(f"{half}{name}", gpus=gpus, node_selector={"at": name}))
    fleet.turn()
    fleet.all_ready()
    for one in fleet.replicas:
        fleet.busy(one, 1)
    fleet.serve(model("high", gpus=2, priority=9))
    assert goes(fleet) == [f"an{large:02}"]


def test_of_several_nodes_those_that_fit_already_are_taken():
    fleet = joined(1, 1, 1)
    runs(fleet, "one", "n01")
    runs(fleet, "two", "n02")
    fleet.serve(model("huge", gpus=1, nodes=2, priority=1))
    assert goes(fleet) in (["one"], ["two"])
    rest(fleet)
    assert "n03" in on(fleet)["huge"]


def test_one_that_lies_on_two_nodes_goes_once_before_two_go():
    fleet = joined(1, 1, 1, 1)
    runs(fleet, "one", "n01")
    runs(fleet, "two", "n02")
    runs(fleet, "wide", nodes=2)
    assert on(fleet)["wide"] == "n03, n04"
    fleet.serve(model("huge", gpus=1, nodes=2, priority=1))
    assert goes(fleet) == ["wide"]


def test_several_of_several_nodes_cost_no_more_than_they_need():
    """What goes for the last of them may be enough for the first as well."""
    fleet = joined(2, 2, 2)
    runs(fleet, "wide", nodes=3)
    runs(fleet, "one", "n01")
    runs(fleet, "two", "n02")
    fleet.serve(model("huge", gpus=1, nodes=2, replicas=2, priority=1))
    gone = goes(fleet)
    assert rest(fleet)["huge"] == 2
    assert gone == ["wide"]


def test_one_of_several_nodes_waits_for_its_places_and_has_them():
    """Lower ones that come meanwhile do not take the node that is free already."""
    fleet = joined(1, 1)
    runs(fleet, "low", "n01")
    fleet.serve(model("huge", gpus=1, nodes=2, priority=1))
    assert goes(fleet) == ["low"]
    fleet.serve(model("small", gpus=1))
    started = rest(fleet)
    assert started == {"huge": 1}
    assert on(fleet) == {"huge": "n01, n02"}


def test_a_drained_node_is_left_where_lower_ones_give_way():
    fleet = joined(1, 1)
    runs(fleet, "high", "n01", priority=1)
    runs(fleet, "low", "n02")
    fleet.serve(model("high", gpus=1, priority=1, arguments=("x",)))
    fleet.change("n01", wish="draining")
    assert goes(fleet) == ["low"]
    rest(fleet)
    assert on(fleet) == {"high": "n02"}


def test_those_of_a_drained_node_keep_their_places_from_lower_ones():
    """They leave it one after the other; nothing starts where the next one is to go."""
    fleet = joined(2, 2)
    runs(fleet, "high", priority=1, replicas=2)
    for one in fleet.replicas.values():
        assert one.state == READY
    fleet.change("n01", wish="draining")
    fleet.change("n02", wish=None)
    fleet.serve(model("low", gpus=1))
    started = rest(fleet)
    assert started["low"] <= 1
    assert all("n01" not in where for where in on(fleet).values())


def test_what_is_asked_for_comes_before_an_equal_that_only_rests():
    fleet = joined(1)
    fleet.serve(model("a", gpus=1, replicas=0, max_replicas=1))
    fleet.serve(model("b", gpus=1, replicas=0, max_replicas=1))
    fleet.waiting("a", 1)
    rest(fleet)
    fleet.waiting("a", 0)
    fleet.busy("a-000001", 0)
    fleet.wait(70)
    fleet.waiting("b", 1)
    assert rest(fleet) == {"b": 1}
    assert on(fleet) == {"b": "n01"}


def test_only_shards_that_were_not_told_are_told_to_stop():
    """The order to one node was lost; the other is not told again with it."""
    fleet = joined(1, 1)
    runs(fleet, "wide", nodes=2)
    fleet.withdraw("wide")
    fleet.turn()
    fleet.busy("wide-000001", 0)
    fleet.wait(LEAST)
    (stop,) = fleet.turn().steps
    assert isinstance(stop, StopReplica)
    assert stop.shards == (("n01", 0), ("n02", 1))
    fleet.told_shards["wide-000001"] = {("n01", 0)}
    (again,) = fleet.turn().steps
    assert isinstance(again, StopReplica)
    assert again.shards == (("n02", 1),)
    assert fleet.turn().steps == ()
