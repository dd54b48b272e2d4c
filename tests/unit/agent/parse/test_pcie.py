"""PCIe links: what is slower than it could be is told with what it carries, and nothing else is."""

from pathlib import Path

import pytest

from llmgw.model.device import PciLink
from llmgw_agent.parse.nvidia_smi_xml import read_report
from llmgw_agent.parse.pcie import LANE_GBS, bandwidth, slow_link
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-q-x"


def recorded(name: str) -> str | None:
    card = only(read_report((FIXTURES / name).read_text()).cards)
    return None if card.pci is None else slow_link(card.pci, card.pci_address)


def test_a_lane_carries_what_its_generation_says():
    # PCI-SIG: 2.5, 5, 8, 16, 32 and 64 GT/s; 16 lanes of the fourth carry 31.5 GB/s.
    told = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563, 7: 15.125}
    assert {generation: round(rate, 3) for generation, rate in LANE_GBS.items()} == {
        generation: pytest.approx(rate, abs=0.001) for generation, rate in told.items()
    }
    assert bandwidth(4, 16) == pytest.approx(31.5, abs=0.05)
    assert bandwidth(8, 16) is None
    assert bandwidth(4, None) is None


def test_fewer_lanes_are_told_with_what_they_carry():
    # <max_link_gen>4</…> <current_link_width>8x</…> <max_link_width>16x</…> at 00000000:00:1E.0
    assert recorded("a10g-515.xml") == (
        "slow PCIe link, 8 of its 16 lanes are in use: it carries 15.8 of 31.5 GB/s; "
        "compare LnkCap and LnkSta of `lspci -vvv -s 0000:00:1e.0`"
    )


def test_an_older_slot_is_told_with_what_it_carries():
    # <max_link_gen>3</…> <max_device_link_gen>4</…> <current_link_width>16x</…> at 00000000:84:00.0
    assert recorded("rtx4090-535.xml") == (
        "slow PCIe link, the slot is of generation 3, the card of 4: it carries 15.8 of 31.5 GB/s; "
        "compare LnkCap and LnkSta of `lspci -vvv -s 0000:84:00.0`"
    )
    # <max_link_gen>4</…> <max_device_link_gen>5</…> <current_link_width>16x</…> at 00000000:61:00.0
    assert recorded("rtx-pro-6000-maxq-590.xml") == (
        "slow PCIe link, the slot is of generation 4, the card of 5: it carries 31.5 of 63.0 GB/s; "
        "compare LnkCap and LnkSta of `lspci -vvv -s 0000:61:00.0`"
    )


@pytest.mark.parametrize(
    "name",
    [
        "2x-a5000-590-llama-server.xml",  # generation 1 now, of 4: an idle card is not slow
        "grid-p4-1q-vgpu-513.xml",  # says N/A
        "gtx1070ti-no-header.xml",  # says how many lanes, and not of how many
    ],
)
def test_an_idle_card_and_one_that_does_not_say_are_silent(name: str):
    for card in read_report((FIXTURES / name).read_text()).cards:
        assert card.pci is None or slow_link(card.pci, card.pci_address) is None


def test_a_gh200_hangs_on_its_processor_by_another_way():
    # PCIe Generation Max: 4, Device Max: 4; Link Width Max: 1x, Current: 1x
    link = PciLink(max_generation=4, card_generation=4, lanes=1, max_lanes=1)
    assert slow_link(link, "00000009:01:00.0") is None
    assert slow_link(PciLink(max_generation=4, card_generation=5, lanes=1, max_lanes=1), "") is None


def test_both_at_once_and_what_can_not_be_counted():
    link = PciLink(max_generation=3, card_generation=5, lanes=4, max_lanes=16)
    assert slow_link(link, "00000008:01:00.0") == (
        "slow PCIe link, 4 of its 16 lanes are in use and the slot is of generation 3, the card of "
        "5: it carries 3.9 of 63.0 GB/s; compare LnkCap and LnkSta of `lspci -vvv -s 0008:01:00.0`"
    )
    unknown = slow_link(PciLink(lanes=8, max_lanes=16), None)
    assert unknown == (
        "slow PCIe link, 8 of its 16 lanes are in use; "
        "compare LnkCap and LnkSta of `lspci -vvv -s ADDRESS`"
    )
    assert slow_link(PciLink(lanes=0, max_lanes=16), None) is None
