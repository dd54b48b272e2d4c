"""The processors' own energy counters."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.rapl import TOOLS, Package, power, read_packages
from llmgw_agent.parse.tree import read_tree

TREE = (Path(__file__).parents[3] / "fixtures" / "rapl" / "intel-rapl.tsv").read_text()
WRAPS_AT = 262_143_328_850


def package(energy: int | None, wraps_at: int | None = WRAPS_AT) -> Package:
    return Package(label="cpu 0 package", energy=energy, wraps_at=wraps_at)


def test_the_package_is_read_and_its_cores_are_not_a_package():
    # intel-rapl:0/name	package-0            intel-rapl:0:0/name	core
    # intel-rapl:0/energy_uj	240422366267
    # intel-rapl:0/max_energy_range_uj	262143328850
    assert read_packages(read_tree(TREE)) == (
        Package(label="cpu 0 package", energy=240_422_366_267, wraps_at=262_143_328_850),
    )


def test_a_machine_of_two_packages_with_a_second_way_to_them_has_two():
    tree = {
        "intel-rapl:0/name": "package-1",
        "intel-rapl:0/energy_uj": "7",
        "intel-rapl:1/name": "package-0",
        "intel-rapl:1/energy_uj": "5",
        "intel-rapl:2/name": "psys",
        "intel-rapl:2/energy_uj": "900",
        "intel-rapl-mmio:0/name": "package-0",
        "intel-rapl-mmio:0/energy_uj": "5",
    }
    assert [(p.label, p.energy) for p in read_packages(tree)] == [
        ("cpu 0 package", 5),
        ("cpu 1 package", 7),
    ]


def test_the_dies_of_a_package_are_told_apart():
    tree = {"intel-rapl:0/name": "package-0-die-1", "intel-rapl:0/energy_uj": "7"}
    assert read_packages(tree) == (Package(label="cpu 0 die 1", energy=7),)


@pytest.mark.parametrize("content", [{}, {"intel-rapl:0/energy_uj": "N/A"}])
def test_a_counter_that_this_user_may_not_read_is_none_and_never_0(content):
    (found,) = read_packages({"intel-rapl:0/name": "package-0", **content})
    assert found.energy is None


def test_power_is_energy_over_time():
    # 12.5 J in 10 s.
    assert power(package(1_000_000), package(13_500_000), 10.0) == pytest.approx(1.25)


def test_a_counter_that_wrapped_goes_on_from_its_end():
    # From 240422366267 to its end at 262143328850 it is 21720962583, and 279037417 more.
    before, after = package(240_422_366_267), package(279_037_417)
    assert power(before, after, 60.0) == pytest.approx(22_000_000_000 / 1e6 / 60)


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        (package(None), package(5), 10.0),
        (package(5), package(None), 10.0),
        (package(5), package(10), 0.0),
        (package(5), package(10), -1.0),
        (package(5), package(10), 61.0),
        (package(10, None), package(5, None), 10.0),
        # It stands still, as a virtual machine's does.
        (package(0), package(0), 10.0),
        (package(5), package(5), 10.0),
        # Set back to 0 soon after its beginning: a wrap would be 26 kW.
        (package(1_000_000), package(0), 10.0),
    ],
)
def test_power_that_can_not_be_told_is_none(before, after, seconds):
    assert power(before, after, seconds) is None


@given(at=st.integers(0, 900), noise=st.text(max_size=30))
def test_no_text_makes_the_reader_raise_anything_but_unreadable(at, noise):
    with suppress(Unreadable):
        TOOLS[0].read(TREE[:at] + noise + TREE[at + 9 :])
