"""`nvidia-smi nvlink`: each recorded text as a person reads it; the lines are quoted beside."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.nvidia_smi_nvlink import CardLinks, Nvlink, read_nvlink, summed
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-nvlink"
H100_RATE = 212_496_000_000
"""26.562 GB/s in bit/s."""


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_two_h100_with_eighteen_links_each():
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-d316e053-…) / Link 0: 26.562 GB/s … Link 17
    cards = read_nvlink(text("2x-h100-status.txt"))
    assert [(card.index, card.uuid) for card in cards] == [
        (0, "GPU-d316e053-6ebb-21d3-e0ea-a88bc257d230"),
        (1, "GPU-2b3249c2-c15f-9e96-a0d9-e4b3a928c211"),
    ]
    for card in cards:
        assert card.name == "NVIDIA H100 80GB HBM3"
        assert card.links == tuple(
            Nvlink(number=number, active=True, rate=H100_RATE) for number in range(18)
        )


def test_eight_a100_with_twelve_links_each():
    # Link 0: 25 GB/s … Link 11: 25 GB/s, without decimals
    cards = read_nvlink(text("8x-a100-status.txt"))
    assert [card.index for card in cards] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert cards[7].uuid == "GPU-162da905-d673-2f85-8ed4-13aa82bd07ee"
    for card in cards:
        assert card.name == "NVIDIA A100-SXM4-80GB"
        assert card.links == tuple(
            Nvlink(number=number, active=True, rate=200_000_000_000) for number in range(12)
        )


def test_a_machine_without_nvlink_prints_nothing():
    assert text("a10-empty.txt") == ""
    assert read_nvlink(text("a10-empty.txt")) == ()


def test_the_info_of_two_gb200_tells_of_no_links():
    # GPU 0: NVIDIA GB200 (UUID: GPU-aa779832-…) / NVLE: disabled / Firmware Version: / MSE: …
    assert read_nvlink(text("gb200-info.txt")) == (
        CardLinks(index=0, name="NVIDIA GB200", uuid="GPU-aa779832-9806-e4aa-76fa-512d3c5f0a8e"),
        CardLinks(index=1, name="NVIDIA GB200", uuid="GPU-b92077cb-6d5c-524a-2f3a-4f19c6bf9c9d"),
    )


def test_errors_of_an_h100():
    # Link 0: Replay Errors: 0 / Link 0: Recovery Errors: 0 / Link 0: CRC Errors: 0; 1 and 17 too
    card = only(read_nvlink(text("h100-errors.txt")))
    assert (card.index, card.uuid) == (0, "GPU-abcdefab-cdef-abdc-abcd-abababababab")
    assert card.links == (
        Nvlink(number=0, replay_errors=0, recovery_errors=0, crc_errors=0),
        Nvlink(number=1, replay_errors=0, recovery_errors=0, crc_errors=0),
        Nvlink(number=17, replay_errors=0, recovery_errors=0, crc_errors=0),
    )
    assert summed(card, "crc_errors") == 0


def test_a_v100_with_two_links_down():
    card = only(read_nvlink(text("v100-two-inactive.txt")))
    assert (card.index, card.name) == (3, "Tesla V100-SXM2-32GB")  # GPU 3: Tesla V100-SXM2-32GB
    assert card.links is not None
    # Link 3: <inactive>, Link 5: <inactive>, the others 25.781 GB/s
    assert [link.active for link in card.links] == [True, True, True, False, True, False]
    assert [link.rate for link in card.links] == [
        *(206_248_000_000, 206_248_000_000, 206_248_000_000, None, 206_248_000_000, None)
    ]


# What no recording holds.


def test_a_card_without_any_link_up_has_links_of_which_nothing_is_known():
    cards = read_nvlink(
        "GPU 0: NVIDIA RTX A6000 (UUID: GPU-0)\n"
        "\t Link 0: 14.062 GB/s\n"
        "GPU 1: NVIDIA RTX A6000 (UUID: GPU-1)\n"
        "NVML: Unable to retrieve NVLink information as all links are inActive\n"
    )
    assert [card.links is None for card in cards] == [False, True]


def test_errors_are_summed_over_links_and_unknown_where_one_does_not_tell():
    card = only(
        read_nvlink(
            "GPU 0: NVIDIA GB200 (UUID: GPU-0)\n"
            "\t Link 0: Tx packets: 12345\n"
            "\t Link 0: Total link recovery events: 2\n"
            "\t Link 0: Effective BER: 15e-255\n"
            "\t Link 0: Replay Errors: 4\n"
            "\t Link 1: Total link recovery events: 3\n"
        )
    )
    assert summed(card, "recovery_errors") == 5
    assert summed(card, "replay_errors") is None


def test_a_rate_that_is_cut_is_not_believed():
    card = only(
        read_nvlink("GPU 0: NVIDIA H100 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: 2")
    )
    assert card.links == (
        Nvlink(number=0, active=True, rate=H100_RATE),
        Nvlink(number=1),
    )


def test_other_text_is_not_links():
    with pytest.raises(Unreadable, match="mismatch"):
        read_nvlink("Failed to initialize NVML: Driver/library version mismatch\n")


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r", "\x01"])
def test_a_name_with_control_characters_costs_the_links_nothing(odd: str):
    listed = text("2x-h100-status.txt")
    cards = read_nvlink(listed.replace("NVIDIA H100", f"NVIDIA{odd}H100"))
    assert [card.links for card in cards] == [card.links for card in read_nvlink(listed)]
    assert cards[0].uuid == "GPU-d316e053-6ebb-21d3-e0ea-a88bc257d230"
