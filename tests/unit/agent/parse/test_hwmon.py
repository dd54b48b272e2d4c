"""Chips that measure: the kernel's hwmon tree, and what lm-sensors prints of it."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.model.node import Sensor
from llmgw_agent.parse import hwmon, sensors
from llmgw_agent.parse.hwmon import (
    Chip,
    Temperature,
    inputs_wanted,
    package_of,
    read_chips,
    reported,
)
from llmgw_agent.parse.sensors import read_sensors
from llmgw_agent.parse.tree import read_tree

FIXTURES = Path(__file__).parents[3] / "fixtures"
CHIPS = (FIXTURES / "hwmon" / "many-chips.tsv").read_text()
EPYC = (FIXTURES / "sensors" / "sensors-temp.txt").read_text()
LAPTOP = (FIXTURES / "sensors" / "sensors-u-amd-laptop.txt").read_text()


def by_place(chips: tuple[Chip, ...]) -> dict[str, Chip]:
    return {chip.place: chip for chip in chips}


def celsius(chip: Chip) -> list[tuple[int, str | None, float | None]]:
    return [(t.channel, t.label, t.celsius) for t in chip.temperatures]


def test_a_machine_with_two_processors_reports_the_package_of_each():
    chips = read_chips(read_tree(CHIPS))
    # platform/coretemp.0/hwmon/hwmon0/temp1_input	55000
    # platform/coretemp.0/hwmon/hwmon0/temp1_label	Physical id 0
    # platform/coretemp.1/hwmon/hwmon1/temp1_input	55000
    # platform/coretemp.1/hwmon/hwmon1/temp1_label	Physical id 0
    assert reported(chips) == (
        Sensor(kind="temperature", label="cpu 0 package", value=55.0),
        Sensor(kind="temperature", label="cpu 1 package", value=55.0),
    )


def test_every_chip_of_the_tree_is_read_with_or_without_name_and_labels():
    chips = by_place(read_chips(read_tree(CHIPS)))
    nvme = chips["pci0000:00/0000:00:02.1/0000:01:00.0/nvme/nvme0/hwmon3"]
    assert nvme.name == "nvme"
    # …/temp1_input	43850  temp1_label	Composite    …/temp3_input	45850  temp3_label	Sensor 2
    # …/temp2_input	43850  temp2_label	Sensor 1     …/temp9_input	43850  temp9_label	Sensor 8
    assert celsius(nvme) == [
        (1, "Composite", 43.85),
        (2, "Sensor 1", 43.85),
        (3, "Sensor 2", 45.85),
        (9, "Sensor 8", 43.85),
    ]
    coretemp = chips["platform/coretemp.1/hwmon/hwmon1"]
    # …/temp2_input	54000  temp2_label	Core 0       …/temp4_input	53000  temp4_label	Core 2
    # …/temp3_input	52000  temp3_label	Core 1       …/temp5_input	50000  temp5_label	Core 3
    assert celsius(coretemp) == [
        (1, "Physical id 0", 55.0),
        (2, "Core 0", 54.0),
        (3, "Core 1", 52.0),
        (4, "Core 2", 53.0),
        (5, "Core 3", 50.0),
    ]
    # pci0000:40/…/hwmon/hwmon0/name	i350bb
    # pci0000:40/…/hwmon/hwmon0/temp1_input	50000      …/temp1_label	loc1
    assert celsius(chips["pci0000:40/0000:40:01.3/0000:45:00.0/hwmon/hwmon0"]) == [
        (1, "loc1", 50.0)
    ]
    # platform/soc/18000000.wifi/ieee80211/phy0/hwmon/hwmon10/temp1_input	57000, no label
    wifi = chips["platform/soc/18000000.wifi/ieee80211/phy0/hwmon/hwmon10"]
    assert (wifi.name, celsius(wifi)) == ("mt7996_phy0_2", [(1, None, 57.0)])
    # sys/class/hwmon/hwmon4/temp1_input	55000  temp1_label	foosensor, and no name
    unnamed = chips["sys/class/hwmon/hwmon4"]
    assert (unnamed.name, celsius(unnamed)) == (
        None,
        [(1, "foosensor", 55.0), (2, "foosensor", 54.0)],
    )
    # platform/bogus.0/hwmon/hwmon5/bogus1_input	55000: no temperature by its name
    assert chips["platform/bogus.0/hwmon/hwmon5"].temperatures == ()


def test_an_input_that_is_no_number_is_a_temperature_without_a_reading():
    tree = {
        "hwmon0/name": "coretemp",
        "hwmon0/temp1_label": "Package id 0",
        "hwmon0/temp1_input": "N/A",
        "hwmon1/name": "coretemp",
        "hwmon1/temp1_label": "Package id 1",
        "hwmon1/temp1_input": "-273150",
    }
    assert [sensor.value for sensor in reported(read_chips(tree))] == [None, None]


def test_an_old_kernel_has_no_label_for_an_amd_processors_package():
    tree = {"hwmon2/name": "k10temp", "hwmon2/temp1_input": "41250"}
    assert reported(read_chips(tree)) == (
        Sensor(kind="temperature", label="cpu 0 package", value=41.25),
    )


def test_the_boards_inlet_is_known_by_its_label_and_two_of_one_label_are_told_apart():
    tree = {
        "hwmon1/name": "board",
        "hwmon1/temp1_label": "Inlet Temp",
        "hwmon1/temp1_input": "23000",
        "hwmon1/temp2_label": "Exhaust",
        "hwmon1/temp2_input": "35000",
        "hwmon10/temp1_label": "Inlet Temp",
        "hwmon10/temp1_input": "24500",
    }
    assert [(s.label, s.value) for s in reported(read_chips(tree))] == [
        ("Inlet Temp", 23.0),
        ("Inlet Temp 2", 24.5),
    ]


def test_chips_come_in_the_order_of_their_numbers_however_long_those_are():
    places = ["hwmon10", "hwmon2", f"hwmon{'9' * 5000}", "hwmon1"]
    chips = read_chips({f"{place}/name": "coretemp" for place in places})
    assert [chip.place for chip in chips] == ["hwmon1", "hwmon2", "hwmon10", places[2]]


def test_only_the_inputs_that_are_reported_need_to_be_read():
    tree = read_tree(CHIPS)
    names = {path: text for path, text in tree.items() if not path.endswith("_input")}
    assert inputs_wanted({**names, "hwmon2/name": "k10temp"}) == (
        "hwmon2/temp1_input",
        "platform/coretemp.0/hwmon/hwmon0/temp1_input",
        "platform/coretemp.1/hwmon/hwmon1/temp1_input",
    )


def test_a_server_with_two_amd_processors_reports_both_control_temperatures():
    chips = by_place(read_sensors(EPYC))
    assert list(chips) == [
        *("k10temp-pci-00cb", "bnxt_en-pci-6201", "nvme-pci-6100", "nvme-pci-0100"),
        *("nouveau-pci-4100", "k10temp-pci-00c3", "bnxt_en-pci-6200", "nvme-pci-8100"),
    ]
    # k10temp-pci-00cb / Tctl: / temp1_input: 57.500 / Tccd1: / temp3_input: 54.000 …
    assert celsius(chips["k10temp-pci-00cb"]) == [
        (1, "Tctl", 57.5),
        (3, "Tccd1", 54.0),
        (4, "Tccd2", 55.5),
        (5, "Tccd3", 56.0),
        (6, "Tccd4", 52.75),
        (7, "Tccd5", 53.5),
        (8, "Tccd6", 55.25),
        (9, "Tccd7", 53.0),
        (10, "Tccd8", 53.75),
    ]
    # bnxt_en-pci-6201 / temp1: / temp1_input: 81.000
    assert celsius(chips["bnxt_en-pci-6201"]) == [(1, None, 81.0)]
    # nvme-pci-6100 / Composite: / temp1_input: 48.850, and four limits
    assert celsius(chips["nvme-pci-6100"]) == [(1, "Composite", 48.85)]
    # nouveau-pci-4100 / temp1: / temp1_input: 51.000
    assert celsius(chips["nouveau-pci-4100"]) == [(1, None, 51.0)]
    # k10temp-pci-00c3 / Tctl: / temp1_input: 62.000
    assert package_of(chips["k10temp-pci-00c3"]) == Temperature(
        channel=1, label="Tctl", celsius=62.0
    )
    # bnxt_en-pci-6200 / temp1_input: 80.000     nvme-pci-8100 / temp1_input: 39.850
    assert celsius(chips["bnxt_en-pci-6200"]) == [(1, None, 80.0)]
    assert celsius(chips["nvme-pci-8100"]) == [(1, "Composite", 39.85)]
    assert celsius(chips["nvme-pci-0100"]) == [(1, "Composite", 39.85)]
    # In the order of their addresses: 00c3 before 00cb.
    assert [(s.label, s.value) for s in reported(chips.values())] == [
        ("cpu 0 package", 62.0),
        ("cpu 1 package", 57.5),
    ]


def test_a_laptop_without_blank_lines_and_with_nonsense_for_limits_is_read():
    chips = by_place(read_sensors(LAPTOP))
    # nvme-pci-0600 / Sensor 1: / temp2_input: 48.850 / temp2_max: 65261.850 / temp2_min: -273.150
    assert celsius(chips["nvme-pci-0600"]) == [
        (1, "Composite", 33.85),
        (2, "Sensor 1", 48.85),
        (3, "Sensor 2", 33.85),
    ]
    # amdgpu-pci-6700 / edge: / temp1_input: 60.000
    assert celsius(chips["amdgpu-pci-6700"]) == [(1, "edge", 60.0)]
    # amdgpu-pci-0300 / edge: 53.000 / junction: 58.000 / mem: 57.000
    assert celsius(chips["amdgpu-pci-0300"]) == [
        (1, "edge", 53.0),
        (2, "junction", 58.0),
        (3, "mem", 57.0),
    ]
    # acpitz-acpi-0 / temp1: / temp1_input: 88.000
    assert celsius(chips["acpitz-acpi-0"]) == [(1, None, 88.0)]
    # asus-isa-0000, BAT0-acpi-0, ucsi_source_psy_USBC000:001-isa-0000: no temperatures
    for place in ("asus-isa-0000", "BAT0-acpi-0", "ucsi_source_psy_USBC000:001-isa-0000"):
        assert chips[place].temperatures == ()
    # k10temp-pci-00c3 / Tctl: / temp1_input: 90.000
    assert [(s.label, s.value) for s in reported(chips.values())] == [("cpu 0 package", 90.0)]


def test_the_adapters_line_of_sensors_without_a_is_passed_over():
    text = "k10temp-pci-00c3\nAdapter: PCI adapter\nTctl:\n  temp1_input: 40.125\n"
    (chip,) = read_sensors(text)
    assert celsius(chip) == [(1, "Tctl", 40.125)]


def test_no_sensors_at_all_is_nothing_and_something_else_is_unreadable():
    assert read_sensors("") == ()
    with pytest.raises(Unreadable, match="No sensors found"):
        read_sensors("No sensors found!\nMake sure you loaded all the kernel drivers you need.\n")


READERS = (hwmon.TOOLS[0].read, sensors.TOOLS[0].read)


@pytest.mark.parametrize("reader", READERS)
@given(at=st.integers(0, 12_000), noise=st.text(max_size=30))
def test_no_text_makes_a_reader_raise_anything_but_unreadable(reader, at, noise):
    for whole in (CHIPS, EPYC, LAPTOP):
        with suppress(Unreadable):
            reader(whole[:at] + noise + whole[at + 9 :])
