"""Which devices are given: free, well, large enough, near to each other."""

from typing import Any

import msgspec
import pytest

from llmgw.model.catalog import PathSource
from llmgw.model.device import (
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NicDistance,
    Xid,
)
from llmgw.model.node import InstalledEngine
from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.groups import together
from llmgw.plan.placement.place import Placement, place
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.placement.scores import scores
from llmgw.plan.records import (
    NEVER,
    NOT_NOW,
    NOT_UNLESS_EVICTED,
    Booking,
    NodeRoom,
    Observed,
    Verdict,
)
from tests.unit.plan.fleet import GB, gpu, mig, model, node


def wanted(*, need: int | None = None, **profile: Any) -> Request:
    one = model("qwen", **profile)
    return request(one, one.profiles[0], device_memory_bytes=need)


def space(*devices: Device, **known: Any) -> Space:
    return Space(NodeRoom(node=node("n", devices=devices), **known), set())


def refusal(asked: Request, there: Space) -> Verdict:
    verdict = first_refusal(asked, there)
    assert verdict is not None
    return verdict


def numbers(asked: Request, there: Space) -> list[int | None]:
    room = Room(Observed(nodes=(there.room,), replicas=()))
    answer = place(asked, room)
    assert isinstance(answer, Placement), answer.words
    by_uuid = {one.uuid: one.number for one in there.node.inventory.devices or ()}
    return [by_uuid[uuid] for uuid in answer.seats[0].devices]


def used(number: int, gigabytes: int, *foreign: ForeignProcess, of: int = 80) -> DeviceSample:
    return DeviceSample(
        uuid=f"GPU-n-{number}",
        memory_used_bytes=gigabytes * GB,
        memory_total_bytes=of * GB,
        foreign=foreign,
    )


def test_a_card_is_large_enough_or_refused_with_its_numbers():
    there = space(gpu("n", 0), gpu("n", 1), readings=(used(0, 7), used(1, 1)))
    assert numbers(wanted(gpus=1, need=75 * GB), there) == [1]
    verdict = refusal(wanted(gpus=2, need=75 * GB), there)
    assert verdict.words == (
        "n: 1 of 2 GPUs free, needs 2: gpu0 73 of 80 GB of memory free, needs 75"
    )
    assert verdict.kind == NOT_NOW
    small = refusal(wanted(gpus=1, need=90 * GB), there)
    assert small.kind == NEVER
    assert "gpu0, gpu1 80 GB of memory, needs 90" in small.words


def test_a_card_that_does_not_say_how_much_memory_it_has_is_usable():
    unknown = msgspec.structs.replace(gpu("n", 0), memory_bytes=None)
    assert numbers(wanted(gpus=1, need=500 * GB), space(unknown)) == [0]


def test_a_device_without_memory_of_its_own_has_what_is_left_of_the_machines():
    spark = msgspec.structs.replace(gpu("n", 0), memory_bytes=None, unified=True)
    there = space(spark, bookings=(Booking(replica="x", rank=0, model="m", memory_bytes=40 * GB),))
    assert numbers(wanted(gpus=1, need=24 * GB), there) == [0]
    verdict = refusal(wanted(gpus=1, need=25 * GB), there)
    assert "gpu0 24 of 64 GB of memory free, needs 25" in verdict.words


def test_what_a_replica_on_such_a_device_takes_of_the_machine_is_not_known():
    spark = msgspec.structs.replace(gpu("n", 0), unified=True)
    there = space(spark, bookings=(Booking(replica="x", rank=0, model="m", devices=(spark.uuid,)),))
    verdict = refusal(wanted(min_memory_gb=1), there)
    assert verdict.words == "n: what x uses of 64 GB of memory is not known and counts as all"


@pytest.mark.parametrize(("gigabytes", "free"), [(0, True), (8, True), (9, False)])
def test_memory_of_nobody_keeps_a_card_above_a_tenth(gigabytes: int, free: bool):
    there = space(gpu("n", 0), readings=(used(0, gigabytes),))
    assert (first_refusal(wanted(gpus=1), there) is None) is free


def test_memory_goes_with_the_replica_that_has_it_and_strangers_stay():
    booking = Booking(replica="x", rank=0, model="m", devices=("GPU-n-0",))
    there = space(gpu("n", 0), bookings=(booking,), readings=(used(0, 71),))
    assert refusal(wanted(gpus=1), there).kind == NOT_UNLESS_EVICTED
    assert first_refusal(wanted(gpus=1), there.without("x")) is None
    stranger = used(0, 71, ForeignProcess(pid=7, command="python", memory_bytes=2 * GB))
    there = space(gpu("n", 0), bookings=(booking,), readings=(stranger,))
    words = refusal(wanted(gpus=1), there.without("x")).words
    assert words.endswith("gpu0 used by python (pid 7, 2 of 80 GB), not llmgw's")


@pytest.mark.parametrize(
    "health",
    [
        DeviceHealth(uuid="GPU-n-0", remap_pending=True),
        DeviceHealth(uuid="GPU-n-0", nvlinks_down=1),
        DeviceHealth(uuid="GPU-n-0", recovery_action="drain"),
        DeviceHealth(uuid="GPU-n-0", ecc_uncorrected_volatile=1),
        DeviceHealth(uuid="GPU-n-0", xids=(Xid(code=63, count=1, action="reset"),)),
        DeviceHealth(uuid="GPU-n-0", xids=(Xid(code=159, count=1, cleared=False),)),
    ],
)
def test_a_sick_card_is_given_out_last(health: DeviceHealth):
    there = space(gpu("n", 0), gpu("n", 1), health=(health,))
    assert numbers(wanted(gpus=1), there) == [1]
    assert "health" not in scores(wanted(gpus=1), there)
    assert scores(wanted(gpus=2), there)["health"] == 0


@pytest.mark.parametrize(
    "xid",
    [
        Xid(code=31, count=9, action="restart_application", cleared=True),
        Xid(code=63, count=1, action="reset", cleared=True),
        Xid(code=999, count=1),
        Xid(code=43, count=1, action="ignore"),
    ],
)
def test_an_error_that_is_over_or_asks_for_nobody_changes_nothing(xid: Xid):
    there = space(gpu("n", 0), health=(DeviceHealth(uuid="GPU-n-0", xids=(xid,)),))
    assert there.ailing == {}


@pytest.mark.parametrize(
    ("reason", "score"), [("heat (hardware)", 50), ("software power cap", None), ("idle", None)]
)
def test_heat_lowers_a_score_and_a_power_limit_does_not(reason: str, score: int | None):
    hot = DeviceSample(uuid="GPU-n-0", throttle_reasons=(reason,))
    assert scores(wanted(gpus=1), space(gpu("n", 0), readings=(hot,))).get("health") == score


def test_a_group_breaks_the_smallest_block_that_is_large_enough():
    island = {0: (1, 2, 3), 1: (0, 2, 3), 2: (0, 1, 3), 3: (0, 1, 2), 4: (5,), 5: (4,)}
    free = [
        gpu("n", number, nvlink_peers=tuple(f"GPU-n-{peer}" for peer in peers))
        for number, peers in island.items()
    ]
    assert [one.number for one in together(free, 2)] == [4, 5]
    assert [one.number for one in together(free, 3)] == [0, 1, 2]
    assert [one.number for one in together(free, 1)] == [4]


def test_of_two_numa_nodes_the_one_near_the_adapter_is_taken():
    def near(number: int, distance: str) -> Device:
        adapters = (NicDistance(adapter="mlx5_1", distance=distance),)
        return gpu("n", number, numa_node=number // 2, adapters=adapters)

    free = [near(0, "SYS"), near(1, "SYS"), near(2, "PIX"), near(3, "PXB")]
    assert [one.number for one in together(free, 2)] == [2, 3]
    assert [one.number for one in together(free, 2, adapters=("mlx5_0",))] == [0, 1]


def test_the_second_instance_of_a_card_goes_before_one_of_a_card_that_is_whole_yet():
    cut = tuple(mig("n", card, instance) for card in (0, 1) for instance in (0, 1))
    held = Booking(replica="x", rank=0, model="m", devices=("MIG-n-1-1",))
    assert numbers(wanted(gpus=1), space(*cut, bookings=(held,))) == [1100]


def test_instances_are_given_to_no_replica_of_several_devices_or_nodes():
    there = space(mig("n", 0, 0), mig("n", 0, 1))
    for profile in ({"gpus": 2}, {"gpus": 1, "nodes": 2}, {"gpus": 1, "tensor_parallel": 2}):
        assert refusal(wanted(**profile), there).rule == "devices"


@pytest.mark.parametrize(
    ("peers", "numa", "score"),
    [
        (((1,), (0,)), (0, 1), None),
        (((), ()), (0, 0), 60),
        (((), ()), (0, 1), 30),
        ((None, None), (None, None), None),
    ],
)
def test_how_devices_reach_each_other_is_scored(peers, numa, score: int | None):
    devices = tuple(
        gpu("n", number, numa_node=numa[number],
            nvlink_peers=None if peers[number] is None
            else tuple(f"GPU-n-{peer}" for peer in peers[number]))
        for number in (0, 1)
    )  # fmt: skip
    assert scores(wanted(gpus=2), space(*devices)).get("group") == score


def test_an_engine_that_is_known_to_be_there_comes_before_one_that_nobody_knows_of():
    asked = wanted(engine="llamacpp", source=PathSource(path="/m"), min_memory_gb=1)
    unknown = node("a", engines=None)
    ready = node("b", engines=(InstalledEngine(engine="llamacpp", state="installed"),))
    rooms = tuple(NodeRoom(node=one) for one in (unknown, ready))
    answer = place(asked, Room(Observed(nodes=rooms, replicas=())))
    assert isinstance(answer, Placement)
    assert answer.seats[0].node == "b"
