"""The page of a dcgm-exporter, of before release 4.9 and after it."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.dcgm import ExporterReading, read_metrics
from tests.only import only

PAGE = (Path(__file__).parents[3] / "fixtures" / "dcgm-exporter" / "metrics.prom").read_text()

OLDER = """\
# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 0.425000
DCGM_FI_PROF_SM_OCCUPANCY{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 0.125000
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 0.300000
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 0.500000
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 80
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 1024
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 1980
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 310.500000
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 56
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1"} 71
"""

NEWER = """\
DCGM_FI_PROF_SM_UTIL_RATIO{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 0.425000
DCGM_FI_PROF_SM_OCCUPANCY_RATIO{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 0.125000
DCGM_FI_PROF_TENSOR_UTIL_RATIO{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 0.300000
DCGM_FI_PROF_DRAM_UTIL_RATIO{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 0.500000
DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 0.800000
DCGM_FI_DEV_FB_USED_BYTES{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 1073741824
DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 1980000000
DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 310.500000
DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 56
DCGM_FI_DEV_MEMORY_TEMP_CELSIUS{gpu="0",UUID="GPU-a",device="nvidia0",hostname="n1"} 71
"""


def one(name: str, value: str, labels: str = 'gpu="0",UUID="GPU-a"') -> ExporterReading:
    return only(read_metrics(f"{name}{{{labels}}} {value}\n"))


def test_a_card_and_an_instance_of_it_are_two_and_a_blank_is_none():
    card, instance = read_metrics(PAGE)
    # DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aaa",Hostname="host1"} 80
    # DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aaa",Hostname="host1"} 1024
    # DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aaa"} 31
    # DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0",UUID="GPU-aaa"} 1
    # DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{gpu="0",UUID="GPU-aaa"} 7
    # DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-aaa"} 9223372036854775794
    assert card == ExporterReading(
        gpu=0,
        uuid="GPU-aaa",
        busy_percent=80.0,
        memory_used_bytes=1024 * 1024 * 1024,
        xid=31,
        remap_failed=True,
        remapped_uncorrected=7,
    )
    # DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aaa",GPU_I_ID="2",GPU_I_PROFILE="1g.10gb"} 60
    assert instance == ExporterReading(
        gpu=0, uuid="GPU-aaa", gpu_instance=2, profile="1g.10gb", busy_percent=60.0
    )


def test_both_generations_of_names_and_units_give_the_same_reading():
    older, newer = only(read_metrics(OLDER)), only(read_metrics(NEWER))
    assert older == newer
    assert older == ExporterReading(
        gpu=0,
        uuid="GPU-a",
        sm_active_percent=42.5,
        sm_occupancy_percent=12.5,
        tensor_active_percent=30.0,
        dram_active_percent=50.0,
        busy_percent=80.0,
        memory_used_bytes=1 << 30,
        sm_clock_mhz=1980.0,
        power_watts=310.5,
        temperature_celsius=56.0,
        memory_temperature_celsius=71.0,
    )


@pytest.mark.parametrize(
    "blank",
    [
        *("140737488355328.000000", "140737488355329.000000", "1.40737488355328e+14"),
        *("9223372036854775792", "9223372036854775794", "NaN", "+Inf", "-1", "N/A", "1.5"),
    ],
)
def test_what_dcgm_gives_for_no_reading_is_none_and_never_0(blank):
    assert one("DCGM_FI_PROF_SM_ACTIVE", blank).sm_active_percent is None
    assert one("DCGM_FI_PROF_SM_UTIL_RATIO", blank).sm_active_percent is None


_WHOLE = (
    *("GPU_UTIL", "FB_USED", "SM_CLOCK", "POWER_USAGE", "GPU_TEMP"),
    *("XID_ERRORS", "ROW_REMAP_FAILURE", "CORRECTABLE_REMAPPED_ROWS"),
)


@pytest.mark.parametrize("name", _WHOLE)
@pytest.mark.parametrize("blank", ["2147483632", "9223372036854775792", "NaN"])
def test_a_blank_whole_number_is_none_whatever_it_is_of(name, blank):
    assert one(f"DCGM_FI_DEV_{name}", blank) == ExporterReading(gpu=0, uuid="GPU-a")


def test_a_ratio_a_little_above_one_is_everything_and_zero_is_nothing_at_work():
    assert one("DCGM_FI_PROF_DRAM_ACTIVE", "1.000300").dram_active_percent == 100.0
    assert one("DCGM_FI_PROF_DRAM_ACTIVE", "0.000000").dram_active_percent == 0.0


def test_the_name_that_kept_percent_in_one_release_is_told_apart_by_its_print():
    # DCGM 4.6 gave field 203, whole percent, the name that 4.7 gave to the ratio.
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "1").busy_percent == 1.0
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "80").busy_percent == 80.0
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "1.000000").busy_percent == 100.0


def test_labels_may_hold_quotes_braces_commas_and_be_empty():
    labels = 'gpu="3",UUID="GPU-b",pod="a\\"},{b",GPU_I_ID="",GPU_I_PROFILE=""'
    reading = one("DCGM_FI_PROF_SM_ACTIVE", "0.5 1700000000000", labels)
    assert reading == ExporterReading(gpu=3, uuid="GPU-b", sm_active_percent=50.0)


def test_instances_of_one_card_are_told_apart_by_their_ids():
    page = "".join(
        f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="GPU-a",GPU_I_ID="{n}"}} 0.{n}\n' for n in (3, 4, 5)
    )
    found = {reading.gpu_instance: reading.sm_active_percent for reading in read_metrics(page)}
    assert found == {3: pytest.approx(30.0), 4: pytest.approx(40.0), 5: pytest.approx(50.0)}


def test_a_page_without_any_known_field_tells_of_nothing_and_no_page_is_unreadable():
    assert read_metrics("DCGM_FI_DEV_VGPU_LICENSE_STATUS 0\n") == ()
    assert read_metrics("") == ()
    # Another exporter's page, and prose that has the form of a metric.
    for other in ("go_goroutines 12\n", "The PCI bus\n", "[12.5] NVRM: Xid 79 seen\n"):
        with pytest.raises(Unreadable, match="no metric of DCGM"):
            read_metrics(other)
    with pytest.raises(Unreadable, match="DOCTYPE"):
        read_metrics("<!DOCTYPE html>\n<p>404</p>\n")


@given(at=st.integers(0, 2200), noise=st.text(max_size=30))
def test_no_text_makes_the_reader_raise_anything_but_unreadable(at, noise):
    for whole in (PAGE, OLDER, NEWER):
        with suppress(Unreadable):
            read_metrics(whole[:at] + noise + whole[at + 9 :])
