"""A network is known by what it is: its subnet managers, or its IP network."""

from typing import Any

import pytest

from llmgw.fabric.identity import Fabrics, is_active
from llmgw.model.fabric import Port, SubnetManager


def manager(guid: str, master: str | None) -> SubnetManager:
    return SubnetManager(guid=guid, master_guid=master)


def port(**said: Any) -> Port:
    return Port(adapter="mlx5_0", number=1, **said)


def test_managers_that_are_listed_together_are_one_fabric_known_by_the_lowest_guid():
    fabrics = Fabrics([manager("0xc", "0xb"), manager("0xb", "0xa"), manager("0xe", "0xd")])
    assert {fabrics.of(guid) for guid in ("0xa", "0xb", "0xc")} == {"0xa"}
    assert fabrics.of("0xe") == "0xd"
    assert fabrics.of("0xf") == "0xf"
    assert fabrics.network(port(master_guid="0xc")) == "InfiniBand 0xa"


def test_a_manager_whose_master_is_not_known_joins_nothing():
    assert Fabrics([manager("0xa", None)]).of("0xa") == "0xa"


@pytest.mark.parametrize(
    ("said", "network"),
    [
        ({"link_layer": "Ethernet", "network": "10.0.0.0/24"}, "RoCE 10.0.0.0/24"),
        ({"link_layer": "Ethernet", "master_guid": "0xa"}, None),
        ({"link_layer": "InfiniBand", "network": "10.0.0.0/24"}, None),
        ({"master_guid": "0xa"}, "InfiniBand 0xa"),
        ({}, None),
    ],
)
def test_a_port_is_on_the_network_of_its_kind_or_cannot_tell(said, network: str | None):
    assert Fabrics([]).network(port(**said)) == network


@pytest.mark.parametrize(
    ("state", "active"),
    [("4: ACTIVE", True), ("Active", True), ("2: INIT", False), ("1: DOWN", False), (None, False)],
)
def test_only_a_port_that_is_up_carries_traffic(state: str | None, active: bool):
    assert is_active(port(state=state)) is active
