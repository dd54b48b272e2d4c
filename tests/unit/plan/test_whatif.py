"""What happens when nodes go."""

import msgspec
import pytest

from llmgw.model.catalog import Disconnect, Model
from llmgw.plan.whatif import Snapshot, WhatIf, what_if
from tests.unit.plan.fleet import Fleet, model, node


def serving(fleet: Fleet, *models: Model) -> Snapshot:
    for one in models:
        fleet.serve(one)
    fleet.apply(fleet.plan())
    fleet.all_ready()
    return Snapshot(
        cluster="c",
        version="1",
        at=0.0,
        now=fleet.now,
        desired=fleet.desired(),
        observed=fleet.observed(),
    )


def nodes(*names: str, devices: int = 2) -> Fleet:
    fleet = Fleet()
    fleet.join(*(node(name, devices=devices) for name in names))
    return fleet


def replaced(name: str, **profile: int) -> Model:
    one = model(name, profile_name="default", **profile)
    return msgspec.structs.replace(one, disconnect=Disconnect(policy="replace"))


def of(answer: WhatIf, name: str) -> tuple[int, int, int]:
    (one,) = [m for m in answer.models if m.model == name]
    return one.before, one.after, one.end


def test_what_is_lost_is_placed_anew_where_there_is_room() -> None:
    answer = what_if(serving(nodes("a", "b"), replaced("m", gpus=1)), ["a"])
    assert of(answer, "m") == (1, 0, 1)
    assert [step.shards[0].node for step in answer.starts] == ["b"]
    assert (answer.lost, answer.left, answer.frozen) == (("a",), 1, False)
    assert answer.words == "1 of 2 nodes gone; all is placed anew"


def test_a_node_on_which_nothing_runs_is_not_missed() -> None:
    snapshot = serving(nodes("a", "b"), model("m", gpus=1))
    answer = what_if(snapshot, ["b"])
    assert (answer.models, answer.starts) == ((), ())
    assert answer.words == "1 of 2 nodes gone; everything goes on as it is"


def test_of_a_stopped_cluster_it_is_not_said_that_everything_goes_on() -> None:
    fleet = nodes("a", "b")
    fleet.stop_cluster()
    answer = what_if(serving(fleet, model("m", gpus=1)), ["a"])
    words = "1 of 2 nodes gone; nothing changes: the cluster is stopped, and nothing is served"
    assert answer.words == words


def test_what_finds_no_place_is_told_with_its_reason() -> None:
    answer = what_if(serving(nodes("a", "b"), replaced("m", gpus=2, replicas=2)), ["a"])
    assert of(answer, "m") == (2, 1, 1)
    assert [one.model for one in answer.refusals] == ["m"]
    assert "served by fewer: m (1 of 2)" in answer.words


def test_a_model_that_ends_is_named() -> None:
    answer = what_if(serving(nodes("a"), replaced("m", gpus=1)), ["a"])
    assert of(answer, "m") == (1, 0, 0)
    assert "not served any more: m" in answer.words


def test_a_lower_priority_gives_way() -> None:
    fleet = nodes("a", "b", devices=1)
    snapshot = serving(
        fleet, replaced("high", gpus=1, priority=5), replaced("low", gpus=1, priority=0)
    )
    where = {one.model: one.shards[0].node for one in snapshot.observed.replicas}
    answer = what_if(snapshot, [where["high"]])
    assert of(answer, "high") == (1, 0, 1)
    assert of(answer, "low") == (1, 1, 0)
    assert len(answer.gives_way) == 1


def test_a_model_that_waits_for_its_node_says_so() -> None:
    answer = what_if(serving(nodes("a", "b"), model("m", gpus=1)), ["a"])
    assert "only once the nodes are removed (policy keep): m" in answer.words


@pytest.mark.parametrize(("lost", "frozen"), [("abc", True), ("ab", False)])
def test_many_at_once_are_taken_for_our_own_fault(lost: str, frozen: bool) -> None:
    answer = what_if(serving(nodes(*"abcdef"), model("m", gpus=1)), lost)
    assert answer.frozen is frozen
    assert ("accept-loss" in answer.words) is frozen


def test_a_snapshot_comes_back_from_a_file_as_it_was() -> None:
    snapshot = serving(nodes("a", "b"), model("m", gpus=1))
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot
