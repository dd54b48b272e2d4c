"""Others keep a device that they compute on or whose memory they fill."""

import pytest

from llmgw.model.availability import FOREIGN, FREE, HELD, availability, foreign_bytes, is_foreign
from llmgw.model.device import Device, DeviceSample, ForeignProcess
from llmgw.model.node import Node

GB = 10**9
DRAWS = ForeignProcess(pid=8, kind="graphics", memory_bytes=GB)


def reading(used: int | None, *foreign: ForeignProcess, total: int | None = 80) -> DeviceSample:
    return DeviceSample(
        uuid="GPU-0",
        memory_used_bytes=None if used is None else used * GB,
        memory_total_bytes=None if total is None else total * GB,
        foreign=foreign,
    )


@pytest.mark.parametrize(
    ("seen", "foreign"),
    [
        (None, False),
        (reading(None), False),
        (reading(8), False),
        (reading(9), True),
        (reading(71, total=None), False),
        (reading(1, DRAWS), False),
        (reading(1, DRAWS, total=8), True),
        (reading(None, DRAWS, total=8), True),
        (reading(0, ForeignProcess(pid=7)), True),
    ],
)
def test_a_tenth_of_its_memory_may_be_others(seen: DeviceSample | None, foreign: bool):
    assert is_foreign(seen) is foreign


def test_what_processes_say_counts_where_the_device_says_less_or_nothing():
    assert foreign_bytes(reading(None)) is None
    assert foreign_bytes(reading(None, DRAWS)) == GB
    assert foreign_bytes(reading(0, DRAWS, DRAWS)) == 2 * GB
    assert foreign_bytes(reading(5, DRAWS)) == 5 * GB


def test_memory_of_a_device_that_is_held_is_its_holders():
    device, there = Device(uuid="GPU-0", unhealthy=()), Node(id="n", liveness="ready")
    assert availability(device, there, reading(71), held=True) == HELD
    assert availability(device, there, reading(71), held=False) == FOREIGN
    assert availability(device, there, reading(1), held=False) == FREE
