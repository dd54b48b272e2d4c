"""Replicas of several nodes: which group is taken, and why, as `explain` tells it."""

from typing import Any

from llmgw.model.catalog import CatalogEntry
from llmgw.model.device import NicDistance
from llmgw.model.node import Node
from llmgw.model.settings import Settings
from llmgw.plan.explain import explain
from llmgw.plan.placement.place import Placement, judge, place
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import NOT_NOW, Cable, Desired, NodeRoom, Observed, Refusal
from tests.unit.plan.fleet import gpu, model, node
from tests.unit.plan.placement_scripts import CLUSTER, ib, roce, tray


def wanted(**profile: Any) -> Request:
    one = model("huge", **{"gpus": 2, "nodes": 2, **profile})
    return request(one, one.profiles[0])


def fleet(*nodes: Node, **cables: tuple[Cable, ...]) -> Observed:
    rooms = tuple(NodeRoom(node=one, cables=cables.get(one.id, ())) for one in nodes)
    return Observed(nodes=rooms, replicas=())


def placed(there: Observed, **profile: Any) -> Placement:
    answer = place(wanted(**profile), Room(there))
    assert isinstance(answer, Placement), answer.words
    return answer


def names(there: Observed, **profile: Any) -> list[str]:
    return [seat.node for seat in placed(there, **profile).seats]


def on(name: str, *ports: Any, **more: Any) -> Node:
    return node(name, devices=more.pop("devices", 2), inventory={"ports": ports}, **more)


def words(there: Observed, **profile: Any) -> dict[str, str]:
    one = model("huge", **{"gpus": 2, "nodes": 2, **profile})
    entry = CatalogEntry(model=one, version=1, changed=0.0, changed_by="ana")
    desired = Desired(models=(entry,), settings=Settings())
    found = explain(one, one.profiles[0], desired, there, 0.0)
    return {each.node: each.verdict.words for each in found}


def leaf(name: str, *, short: bool | None = None) -> tuple[Cable, ...]:
    return (Cable(adapter="mlx5_0", number=1, leaf=name, trained_short=short),)


def test_infiniband_comes_before_roce_and_an_nvlink_domain_before_both():
    both = (ib("0xa"), roce("10.0.0.0/24"))
    assert placed(fleet(on("a", *both), on("b", *both))).network == "InfiniBand 0xa"
    only = fleet(on("a", *both), on("b", roce("10.0.0.0/24")))
    assert placed(only).network == "RoCE 10.0.0.0/24"
    rack = fleet(tray("t1", ports=both), tray("t2", ports=both), on("a", *both), on("b", *both))
    answer = placed(rack)
    assert answer.nvlink_domain == f"{CLUSTER}/7"
    assert [seat.ports for seat in answer.seats] == [(), ()]


def test_a_profile_that_names_a_fabric_asks_for_its_ports_also_inside_an_nvlink_domain():
    inside = fleet(tray("t1"), tray("t2"))
    assert placed(inside).nvlink_domain
    refused = place(wanted(fabric="ib"), Room(inside))
    assert isinstance(refused, Refusal)
    assert "t1: no network port of fabric ib" in refused.words
    ports = (ib("0xa", fabric="ib"),)
    assert placed(
        fleet(tray("t1", ports=ports), tray("t2", ports=ports)), fabric="ib"
    ).nvlink_domain


def test_one_leaf_comes_before_a_better_node_on_another():
    port = ib("0xa")
    there = fleet(
        on("a", port, memory_gb=512), on("b", port), on("c", port),
        a=leaf("l1"), b=leaf("l2"), c=leaf("l2"),
    )  # fmt: skip
    assert names(there) == ["b", "c"]
    assert names(there, nodes=3) == ["a", "b", "c"]
    assert words(there)["b"] == (
        "b: rank 0 of 2 on InfiniBand 0xa, 3 nodes that fit are there, on one leaf (l2)"
    )
    assert words(there)["a"] == "a: is on InfiniBand 0xa too, and others come first"
    assert "on 2 leaves (l1, l2)" in words(there, nodes=3)["a"]


def test_a_cable_that_trained_short_comes_last_and_is_still_taken():
    port = ib("0xa")
    there = fleet(
        on("a", port), on("b", port), on("c", port), a=leaf("l1", short=True), b=leaf("l1")
    )
    assert names(there) == ["b", "c"]
    assert words(there)["a"] == "a: is on InfiniBand 0xa by a cable that trained short"
    assert names(there, nodes=3) == ["a", "b", "c"]
    assert "1 of them by a cable that trained short" in words(there, nodes=3)["a"]


def test_a_port_slower_than_those_of_most_nodes_comes_last():
    rates = {"a": 100, "b": 400, "c": 400, "d": 400}
    there = fleet(*(on(name, ib("0xa", rate=rate * 10**9)) for name, rate in rates.items()))
    assert names(there, nodes=3) == ["b", "c", "d"]


def test_the_devices_are_those_near_the_adapters_of_the_network():
    def card(name: str, number: int) -> Any:
        distances = ("PIX", "SYS") if number < 2 else ("SYS", "PIX")
        adapters = tuple(
            NicDistance(adapter=adapter, distance=distance)
            for adapter, distance in zip(("mlx5_8", "mlx5_0"), distances, strict=True)
        )
        return gpu(name, number, numa_node=number // 2, adapters=adapters)

    there = fleet(
        *(
            on(name, ib("0xa"), roce("10.0.0.0/24"), devices=tuple(card(name, n) for n in range(4)))
            for name in ("a", "b")
        )
    )
    assert placed(there).seats[0].devices == ("GPU-a-2", "GPU-a-3")


def test_a_node_without_an_address_is_not_met():
    port = ib("0xa")
    there = fleet(on("a", port), on("b", port), on("c", port))
    hidden = node("a", devices=2, inventory={"ports": (port,)})
    hidden = Node(**{f: getattr(hidden, f) for f in hidden.__struct_fields__ if f != "address"})
    there = fleet(hidden, *(room.node for room in there.nodes[1:]))
    assert names(there) == ["b", "c"]
    assert words(there)["a"] == "a: its address is not known"
    alone = judge(wanted(), Room(there).spaces["a"])
    assert (alone.verdict.kind, alone.verdict.words) == (NOT_NOW, "a: its address is not known")


def test_a_node_that_could_join_another_group_says_where_it_is():
    there = fleet(on("a", ib("0xa")), on("b", ib("0xa")), on("c", roce("10.0.0.0/24")))
    assert words(there)["c"] == "c: is on RoCE 10.0.0.0/24, and the group on InfiniBand 0xa"


def test_nodes_of_another_class_are_counted_apart_in_words():
    old = tuple(gpu("b", number, "a100-80g") for number in range(2))
    there = fleet(on("a", ib("0xa")), on("b", ib("0xa"), devices=old))
    refused = place(wanted(), Room(there))
    assert isinstance(refused, Refusal)
    assert refused.words == (
        "a: 1 of 2 nodes that fit with 2 h100-80g are on InfiniBand 0xa; "
        "b: 1 of 2 nodes that fit with 2 a100-80g are on InfiniBand 0xa"
    )
