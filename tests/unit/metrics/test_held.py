"""Which model's replica holds which device."""

from llmgw.model.device import Device
from llmgw.plan.records import Booking, NodeRoom
from tests.unit.metrics.scraped import of_node, room, values

DEVICES = (Device(uuid="GPU-a", number=0), Device(uuid="GPU-b", number=1))


def test_a_device_that_a_shard_holds_is_joined_with_its_model() -> None:
    held = of_node(room("gpu-01", *DEVICES, held=("GPU-b",)))
    assert values(held, "llmgw_gpu_held") == {("gpu-01", "1", "GPU-b", "m-1", "0", "m"): 1}


def test_a_device_that_nobody_holds_has_no_sample() -> None:
    assert values(of_node(room("gpu-01", *DEVICES)), "llmgw_gpu_held") == {}


def test_a_booking_that_does_not_tell_its_model_takes_the_replica_s() -> None:
    free = room("gpu-01", *DEVICES)
    booking = Booking(replica="m-2", rank=1, devices=("GPU-a", "GPU-gone"))
    one = NodeRoom(node=free.node, bookings=(booking,))
    told = values(of_node(one, models_of={"m-2": "other"}), "llmgw_gpu_held")
    assert told == {("gpu-01", "0", "GPU-a", "m-2", "1", "other"): 1}
