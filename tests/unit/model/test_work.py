"""How much a device works."""

import pytest

from llmgw.model.device import DeviceSample
from llmgw.model.work import POWER, SM_ACTIVE, Work, work


def sample(**readings: float) -> DeviceSample:
    return DeviceSample(uuid="GPU-a", **readings)  # type: ignore[arg-type]


def test_active_multiprocessors_are_work_where_they_can_be_read():
    seen = work(sample(sm_active_percent=37.5, power_watts=600, power_limit_watts=700))
    assert seen == Work(ratio=0.375, source=SM_ACTIVE)


def test_nothing_active_is_no_work_however_much_is_drawn():
    seen = work(sample(sm_active_percent=0, power_watts=600, power_limit_watts=700))
    assert seen == Work(ratio=0.0, source=SM_ACTIVE)


def test_draw_against_the_limit_is_work_where_profiling_can_not_be_read():
    seen = work(sample(power_watts=175, power_limit_watts=700))
    assert seen == Work(ratio=0.25, source=POWER)


@pytest.mark.parametrize(
    "readings",
    [
        {},
        {"busy_percent": 100.0},
        {"power_watts": 300.0},
        {"power_limit_watts": 700.0},
        {"power_watts": 300.0, "power_limit_watts": 0.0},
    ],
)
def test_busy_alone_is_no_measure_of_work(readings):
    assert work(sample(**readings)) is None
