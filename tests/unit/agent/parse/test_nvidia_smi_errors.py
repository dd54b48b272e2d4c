"""What nvidia-smi says instead of cards, and what each of it means for the node."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.card_devices import devices
from llmgw_agent.parse.card_history import since
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.parse.nvidia_smi import read_said
from llmgw_agent.parse.nvidia_smi_errors import (
    MISMATCH,
    NOT_LOADED,
    lost_cards,
    read_failure,
    unknown_field,
)
from llmgw_agent.parse.nvidia_smi_table import Table
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-errors"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_a_lost_card_is_there_as_a_broken_one():
    # Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system …
    said = (
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. "
        "Reboot the system to recover this GPU"
    )
    assert read_said(text("gpu-lost.txt")) == CardsSeen(
        cards=(Card(pci_address="0000:02:00.0", trouble=f"nvidia-smi: {said}"),),
        warning=f"nvidia-smi reads no card while one is broken: {said}",
    )


def test_a_card_that_fell_off_the_bus_is_there_as_a_broken_one():
    # Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error
    said = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error"
    assert read_said(text("unknown-error-2080ti.txt")) == CardsSeen(
        cards=(Card(pci_address="0000:0B:00.0", trouble=f"nvidia-smi: {said}"),),
        warning=f"nvidia-smi reads no card while one is broken: {said}",
    )


def test_no_devices_is_no_failure_and_no_driver_is_a_warning():
    # No devices were found
    assert read_said(text("no-devices.txt")) == CardsSeen()
    # NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …
    assert read_said(text("driver-not-loaded.txt")) == CardsSeen(warning=NOT_LOADED)


def test_a_table_with_unified_memory_is_no_failure():
    # |   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
    # | N/A   36C    P8              3W /  N/A  | Not Supported          |      0%      Default |
    # |                                         |                        |                  N/A |
    assert read_said(text("gb10-table.txt")) == Table(
        driver="580.126.09",  # Driver Version: 580.126.09
        cuda="13.0",  # CUDA Version: 13.0
        cards=(
            Card(
                index=0,
                name="NVIDIA GB10",
                pci_address="0000000F:01:00.0",
                memory_total=None,
                memory_of_its_own=False,
                busy=0.0,
                temperature=36.0,
                power=3.0,
                power_limit=None,
                fan=None,
                mig=None,
                ecc_uncorrected=None,
                processes=None,
            ),
        ),
    )


def test_a_driver_that_was_updated_asks_for_a_reboot_and_registers():
    said = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550"
    assert read_failure(said, 18) == CardsSeen(warning=MISMATCH)
    assert "reboot" in MISMATCH


@pytest.mark.parametrize(
    ("place", "index", "address"),
    [
        ("GPU 0000:02:00.0: GPU is lost.", None, "0000:02:00.0"),
        ("GPU0000:CB:00.0: Unknown Error", None, "0000:CB:00.0"),
        ("GPU1: 0000:34:00.0: Unknown Error", 1, "0000:34:00.0"),
        ("GPU1: Unknown Error", 1, None),
        ("GPU 0: Unknown Error", 0, None),
        ("gpu 00000008:01:00.0: GPU is lost", None, "00000008:01:00.0"),
    ],
)
def test_every_driver_names_a_lost_card_in_its_own_way(place, index, address):
    card = only(lost_cards(f"  Unable to determine the device handle for {place}\n"))
    assert (card.index, card.pci_address) == (index, address)


def test_two_lost_cards_are_two_and_one_that_is_told_twice_is_one():
    one = "Unable to determine the device handle for GPU0: 0000:34:00.0: Unknown Error\n"
    other = one.replace("GPU0: 0000:34", "GPU1: 0000:35")
    assert [card.index for card in lost_cards(one + other + one)] == [0, 1]


def test_a_lost_card_keeps_the_name_it_had_and_the_others_are_unreadable_too():
    first, second = "GPU-1954f77f-b1d1-8dba-6fd1-0cf40b811dd9", "GPU-2"
    before = (
        Card(index=0, uuid=first, name="NVIDIA H100", pci_address="00000000:02:00.0"),
        Card(index=1, uuid=second, name="NVIDIA H100", pci_address="00000000:2A:00.0"),
    )
    now = devices(since(before, read_failure(text("gpu-lost.txt"), 15)).cards)
    assert [device.uuid for device in now] == [first, second]
    assert [device.name for device in now] == ["NVIDIA H100", "NVIDIA H100"]
    assert all(device.unhealthy for device in now)


def test_anything_else_is_unreadable_and_quoted():
    with pytest.raises(Unreadable, match="exit status -11: 'segmentation fault'"):
        read_failure("segmentation fault", -11)
    with pytest.raises(Unreadable, match="Failed to initialize NVML: Unknown Error"):
        read_failure("Failed to initialize NVML: Unknown Error\n")


def test_a_field_that_a_driver_does_not_know_is_named():
    assert unknown_field('Field "compute_cap" is not a valid field to query.\n') == "compute_cap"
    assert unknown_field("No devices were found") is None


@given(st.text(), st.integers(-20, 255))
def test_no_failure_raises_anything_but_unreadable(said: str, rc: int):
    with suppress(Unreadable):
        read_failure(said, rc)
    with suppress(Unreadable):
        read_said(said)
    with suppress(Unreadable):
        read_said(f"Unable to determine the device handle for GPU {said}")
