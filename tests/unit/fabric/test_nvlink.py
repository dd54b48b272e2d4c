"""A card is joined to an NVLink domain when everything says so, and known not to by one thing."""

import msgspec
import pytest

from llmgw.fabric.nvlink import domain_of, is_cluster, joined, why_not
from llmgw.model.device import Device, NvlinkFabric
from llmgw.model.fabric import NvlinkDomain

CLUSTER = "b2daed23-0000-0000-0000-000000000000"
FABRIC = NvlinkFabric(state="Completed", status="Success", cluster_uuid=CLUSTER, clique_id=1)
DOMAIN = NvlinkDomain(
    cluster_uuid=CLUSTER, clique_id=1, imex_running=True, imex_channels=("channel0",)
)


def fabric(**changes: object) -> NvlinkFabric:
    return msgspec.structs.replace(FABRIC, **changes)


def domain(**changes: object) -> NvlinkDomain:
    return msgspec.structs.replace(DOMAIN, **changes)


def test_a_completed_fabric_with_a_cluster_and_imex_is_joined():
    assert joined(FABRIC, DOMAIN) is True
    assert why_not(FABRIC, DOMAIN) is None


@pytest.mark.parametrize(
    ("card", "machine", "words"),
    [
        (fabric(state="In Progress"), DOMAIN, "state is In Progress"),
        (fabric(state="Not Supported"), DOMAIN, "state is Not Supported"),
        (fabric(status="Failure"), DOMAIN, "status is Failure"),
        (
            fabric(cluster_uuid="00000000-0000-0000-0000-000000000000"),
            DOMAIN,
            "linked within its machine alone",
        ),
        (FABRIC, domain(imex_running=False), "nvidia-imex does not run"),
        (FABRIC, domain(imex_channels=()), "no channel"),
    ],
)
def test_one_thing_that_is_missing_keeps_a_card_out(
    card: NvlinkFabric, machine: NvlinkDomain, words: str
):
    assert joined(card, machine) is False
    assert words in (why_not(card, machine) or "")


@pytest.mark.parametrize(
    ("card", "machine"),
    [
        (None, DOMAIN),
        (FABRIC, None),
        (fabric(state=None), DOMAIN),
        (fabric(status=None), DOMAIN),
        (fabric(cluster_uuid=None), DOMAIN),
        (FABRIC, domain(imex_running=None)),
        (FABRIC, domain(imex_channels=None)),
    ],
)
def test_what_is_not_known_is_neither_joined_nor_out(
    card: NvlinkFabric | None, machine: NvlinkDomain | None
):
    assert joined(card, machine) is None
    assert why_not(card, machine) is None


def test_one_known_fault_is_enough_when_the_rest_is_not_known():
    assert joined(NvlinkFabric(state="In Progress"), None) is False
    assert joined(NvlinkFabric(state="Completed"), domain(imex_running=False)) is False


def test_zeros_are_no_cluster():
    assert not is_cluster("00000000-0000-0000-0000-000000000000")
    assert is_cluster(CLUSTER)


def cards(*fabrics: NvlinkFabric | None) -> list[Device]:
    return [Device(uuid=f"GPU-{n}", nvlink=one) for n, one in enumerate(fabrics)]


def test_a_machine_is_in_a_domain_when_each_of_its_cards_is_and_in_the_same():
    assert domain_of(cards(FABRIC, FABRIC), DOMAIN) == f"{CLUSTER}/1"
    for odd in (None, fabric(clique_id=2), fabric(clique_id=None), fabric(state="In Progress")):
        assert domain_of(cards(FABRIC, odd), DOMAIN) is None
    assert domain_of([], DOMAIN) is None


@pytest.mark.parametrize("machine", [domain(imex_running=False), domain(imex_running=None), None])
def test_no_machine_is_in_a_domain_while_imex_is_not_known_to_be_up(machine):
    assert domain_of(cards(FABRIC), machine) is None
