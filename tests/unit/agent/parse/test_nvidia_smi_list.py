"""`nvidia-smi -L`: values typed from the text, which stands beside them."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cards import Card, CardsSeen, Instance
from llmgw_agent.parse.nvidia_smi_list import read_list
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-L"


def listed(name: str) -> CardsSeen:
    return read_list((FIXTURES / name).read_text())


def test_an_instance_has_its_profile_and_uuid():
    # GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-fca58935-cc1c-e04f-8eb5-85c9537887a5)
    #   MIG 3g.20gb     Device  0: (UUID: MIG-efb89dbb-166b-28fc-7b95-cacd30de50ff)
    assert listed("a100-mig-3g.txt") == CardsSeen(
        cards=(
            Card(
                index=0,
                uuid="GPU-fca58935-cc1c-e04f-8eb5-85c9537887a5",
                name="NVIDIA A100-SXM4-40GB",
                instances=(
                    Instance(
                        index=0,
                        uuid="MIG-efb89dbb-166b-28fc-7b95-cacd30de50ff",
                        profile="3g.20gb",
                    ),
                ),
            ),
        )
    )


def test_instances_are_numbered_anew_on_each_card():
    # GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-00000000-0000-0000-0000-00000000a100)
    #   MIG 3g.20gb     Device  0: (UUID: MIG-00000000-0000-5000-8000-000000000100)
    #   MIG 3g.20gb     Device  1: (UUID: MIG-00000000-0000-5000-8000-000000000101)
    # GPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-00000000-0000-0000-0000-00000000a101)
    #   MIG 3g.20gb     Device  0: (UUID: MIG-00000000-0000-5000-8000-000000000110)
    #   MIG 3g.20gb     Device  1: (UUID: MIG-00000000-0000-5000-8000-000000000111)
    assert listed("a100-pcie-2x2-3g.txt").cards == tuple(
        Card(
            index=card,
            uuid=f"GPU-00000000-0000-0000-0000-00000000a10{card}",
            name="NVIDIA A100-PCIE-40GB",
            instances=tuple(
                Instance(
                    index=index,
                    uuid=f"MIG-00000000-0000-5000-8000-0000000001{card}{index}",
                    profile="3g.20gb",
                )
                for index in (0, 1)
            ),
        )
        for card in (0, 1)
    )


def test_a_card_without_mig_has_no_instances():
    # GPU 0: Tesla P100-SXM2-16GB (UUID: GPU-5ff9d351-5832-5bdf-cee2-7e1a62fa9a45)
    assert listed("p100-slurm.txt").cards == (
        Card(
            index=0,
            uuid="GPU-5ff9d351-5832-5bdf-cee2-7e1a62fa9a45",
            name="Tesla P100-SXM2-16GB",
            instances=None,
        ),
    )


@pytest.mark.parametrize(
    ("name", "profile"),
    [("1g.10gb+me", "1g.10gb+me"), ("1c.3g.20gb", "1c.3g.20gb"), ("1g.24gb-me", "1g.24gb-me")],
)
def test_profiles_of_every_form(name: str, profile: str):
    text = (
        "GPU 0: NVIDIA A100 (UUID: GPU-00000000-0000-0000-0000-00000000a100)\n"
        f"  MIG {name}  Device  3: (UUID: MIG-GPU-00000000-0000-0000-0000-00000000a100/7/0)\n"
    )
    instance = only(only(read_list(text).cards).instances)
    assert (instance.index, instance.profile) == (3, profile)
    # Drivers before 470 made the instance's UUID of its card's and its ids.
    assert instance.uuid == "MIG-GPU-00000000-0000-0000-0000-00000000a100/7/0"


def test_a_lost_card_among_the_others_and_a_line_that_was_cut():
    text = (
        "Unable to determine the device handle for gpu 0000:02:00.0: GPU is lost.\n"
        "GPU 1: NVIDIA A100 (UUID: GPU-00000000-0000-0000-0000-00000000a101)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-00000000-0000"
    )
    card, lost = read_list(text).cards
    assert (card.index, card.instances) == (1, None)
    assert lost.pci_address == "0000:02:00.0"


def test_what_lists_no_card_is_unreadable_and_quoted():
    with pytest.raises(Unreadable, match="No devices found"):
        read_list("No devices found.")


LINES = st.sampled_from((FIXTURES / "a100-pcie-2x2-3g.txt").read_text().splitlines())


@given(st.one_of(st.text(), st.lists(st.one_of(LINES, LINES.map(lambda s: s[:40]))).map("\n".join)))
def test_no_list_raises_anything_but_unreadable(text: str):
    with suppress(Unreadable):
        read_list(text)
