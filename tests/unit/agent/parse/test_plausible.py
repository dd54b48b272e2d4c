"""What a reading can be, one function a unit, and every tool that gives such a reading."""

import math
from collections.abc import Callable

import pytest

from llmgw_agent.parse import plausible
from llmgw_agent.parse.dcgm import read_metrics
from llmgw_agent.parse.hwmon import read_chips
from llmgw_agent.parse.ib_values import rate
from llmgw_agent.parse.infiniband import read_ports
from llmgw_agent.parse.nvidia_smi import read_cards, read_processes
from llmgw_agent.parse.nvidia_smi_report import read_report
from llmgw_agent.parse.nvidia_smi_xml import read_report as read_xml_report
from llmgw_agent.parse.rapl import Package, power
from llmgw_agent.parse.sensors import read_sensors
from tests.only import only

Reading = Callable[[float | None], float | None]

ALL: tuple[Reading, ...] = (
    plausible.watts,
    plausible.celsius,
    plausible.percent,
    plausible.fan,
    plausible.megahertz,
    plausible.bit_rate,
    plausible.memory,
    plausible.size,
    plausible.count,
    plausible.index,
    plausible.pid,
    plausible.up,
    plausible.moment,
)
NONSENSE = (math.nan, math.inf, -math.inf, 1e308, -1e308, -300.0, 10**400, -(10**400))


@pytest.mark.parametrize("reading", ALL)
@pytest.mark.parametrize("value", [None, *NONSENSE])
def test_nothing_that_can_not_be_is_a_reading(reading: Reading, value: float | None):
    assert reading(value) is None


@pytest.mark.parametrize(
    ("reading", "most", "beyond"),
    [
        (plausible.watts, 10_000.0, 10_000.1),
        (plausible.celsius, 199.9, 200.0),
        (plausible.celsius, -54.9, -55.0),
        (plausible.percent, 100.0, 100.1),
        (plausible.fan, 300.0, 300.1),
        (plausible.megahertz, 10_000.0, 10_001.0),
        (plausible.bit_rate, 10**14, 10**14 + 1),
        (plausible.memory, 1 << 44, (1 << 44) + 1),
        (plausible.size, (1 << 63) - 1, 1 << 63),
        (plausible.count, 1 << 53, (1 << 53) + 1),
        (plausible.index, 999, 1000),
        (plausible.pid, 1 << 22, (1 << 22) + 1),
        (plausible.up, 3.1e9, 3.2e9),
        (plausible.moment, 7.2e9, 7.3e9),
    ],
)
def test_each_reading_has_an_end(reading: Reading, most: float, beyond: float):
    assert reading(most) == most
    assert reading(beyond) is None


@pytest.mark.parametrize("reading", [plausible.watts, plausible.celsius, plausible.percent])
@pytest.mark.parametrize("value", [0, 0.0, -0.0])
def test_zero_is_told_without_a_sign(reading: Reading, value: float):
    told = reading(value)
    assert told == 0.0
    assert math.copysign(1.0, told) == 1.0


@pytest.mark.parametrize(
    "reading", [plausible.count, plausible.memory, plausible.index, plausible.pid]
)
def test_what_is_counted_is_whole(reading: Reading):
    assert reading(1.5) is None
    assert isinstance(reading(2.0), int)


FIELDS = (
    *("index", "uuid", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu"),
    *("temperature.memory", "power.draw", "enforced.power.limit", "clocks.sm", "fan.speed"),
)
UUID = "GPU-690adda0-83a8-3d78-cc28-02a859b88a85"


@pytest.mark.parametrize(
    "figures",
    [
        "99999, {uuid}, 99999999999, 99999999999, 101, 999, 999, 20000, 20000, 99999, 301",
        "-1, {uuid}, -1, -5, -1, -300, -300, -1, -70.5, -5, -1",
        "1000, {uuid}, nan, inf, 1e308, nan, inf, nan, 1e308, nan, inf",
    ],
)
def test_a_card_of_nvidia_smi_has_no_reading_that_can_not_be(figures: str):
    card = only(read_cards(f"{', '.join(FIELDS)}\n{figures.format(uuid=UUID)}\n").cards)
    assert card.uuid == UUID
    assert (card.index, card.memory_total, card.memory_used, card.busy) == (None,) * 4
    assert (card.temperature, card.memory_temperature, card.power) == (None,) * 3
    assert (card.power_limit, card.sm_clock, card.fan) == (None,) * 3


def test_a_fan_may_run_faster_than_it_is_rated_for():
    card = only(read_cards(f"uuid, fan.speed [%]\n{UUID}, 114 %\n").cards)
    assert card.fan == 114.0


def test_a_power_of_minus_zero_is_zero():
    card = only(read_cards(f"uuid, power.draw [W]\n{UUID}, -0.00 W\n").cards)
    assert str(card.power) == "0.0"


@pytest.mark.parametrize("pid", ["0", "-5", "99999999999"])
def test_a_process_that_can_not_be_is_none(pid: str):
    assert read_processes(f"gpu_uuid, pid, used_memory\n{UUID}, {pid}, 5\n") == {}


def test_the_report_has_no_reading_that_can_not_be():
    gpu = only(
        read_report(
            f"""
GPU 00000000:01:00.0
    GPU UUID                              : {UUID}
    Fan Speed                             : 1500 %
    FB Memory Usage
        Total                             : 99999999999 MiB
        Used                              : -5 MiB
    Utilization
        Gpu                               : 101 %
        Memory                            : -1 %
    Temperature
        GPU Current Temp                  : -300 C
        Memory Current Temp               : 999 C
    GPU Power Readings
        Power Draw                        : -5.00 W
        Current Power Limit               : 999999.00 W
    Clocks
        SM                                : 999999 MHz
    Processes
        Process ID                        : 99999999999
"""
        ).gpus
    )
    assert gpu.uuid == UUID
    assert (gpu.fan_percent, gpu.busy_percent, gpu.memory_bandwidth_percent) == (None,) * 3
    assert (gpu.memory, gpu.heat, gpu.power, gpu.clocks) == (None,) * 4
    assert gpu.processes == ()


def test_the_report_as_xml_has_no_reading_that_can_not_be():
    text = f"""<nvidia_smi_log><gpu id="00000000:01:00.0"><uuid>{UUID}</uuid>
    <fan_speed>1500 %</fan_speed><fb_memory_usage><total>99999999999 MiB</total></fb_memory_usage>
    <utilization><gpu_util>101 %</gpu_util></utilization>
    <temperature><gpu_temp>-300 C</gpu_temp><memory_temp>999 C</memory_temp></temperature>
    <gpu_power_readings><power_draw>-5.00 W</power_draw></gpu_power_readings>
    <clocks><sm_clock>999999 MHz</sm_clock></clocks></gpu></nvidia_smi_log>"""
    card = only(read_xml_report(text).cards)
    assert card.uuid == UUID
    assert (card.fan, card.memory_total, card.busy) == (None,) * 3
    assert (card.temperature, card.memory_temperature, card.power, card.sm_clock) == (None,) * 4


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e308", "-0.5", "1e18"])
def test_a_page_of_dcgm_has_no_reading_that_can_not_be(value: str):
    names = ("POWER_USAGE", "GPU_TEMP", "MEMORY_TEMP", "SM_CLOCK", "GPU_UTIL", "FB_USED")
    page = "".join(f'DCGM_FI_DEV_{name}{{gpu="0",UUID="{UUID}"}} {value}\n' for name in names)
    found = only(read_metrics(page))
    told = {name for name in found.__struct_fields__ if getattr(found, name) is not None}
    assert told == {"gpu", "uuid"}


def test_a_card_of_dcgm_has_a_number_that_cards_have():
    assert only(read_metrics('DCGM_FI_DEV_GPU_TEMP{gpu="99999"} 30\n')).gpu is None


@pytest.mark.parametrize("value", ["-273150", "999999", "200000", "-55000"])
def test_a_sensor_has_no_heat_that_can_not_be(value: str):
    (chip,) = read_chips({"hwmon0/name": "k10temp", "hwmon0/temp1_input": value})
    assert only(chip.temperatures).celsius is None
    text = f"k10temp-pci-00c3\nTctl:\n  temp1_input: {int(value) / 1000}\n"
    assert only(only(read_sensors(text)).temperatures).celsius is None


def test_a_package_draws_nothing_that_can_not_be():
    before = Package(label="cpu 0 package", energy=0)
    after = Package(label="cpu 0 package", energy=10**12)
    assert power(before, after, 10.0) is None
    assert power(before, before, 10.0) is None


def test_a_port_has_no_rate_and_no_number_that_can_not_be():
    assert rate("999999 Gb/sec", None, None) is None
    assert rate("0 Gb/sec", None, None) is None
    assert rate("800 Gb/sec (4X XDR)", None, None) == 800_000_000_000
    assert read_ports({"mlx5_0/ports/99999/state": "4: ACTIVE"}) == ()
