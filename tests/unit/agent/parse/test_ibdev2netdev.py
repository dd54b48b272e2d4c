"""ibdev2netdev: the network interface of each port."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.ibdev2netdev import PortInterface, read_ibdev2netdev

FIXTURES = Path(__file__).parents[3] / "fixtures" / "ibdev2netdev"


def test_interfaces_of_an_h100_node_in_the_order_of_the_text():
    found = read_ibdev2netdev((FIXTURES / "h100-mixed.txt").read_text())
    assert [(one.adapter, one.interface, one.up) for one in found] == [
        # mlx5_0   port  1  ==>  ibp26s0        (Down)
        ("mlx5_0", "ibp26s0", False),
        # mlx5_1   port  1  ==>  enp27s0f0np0   (Up)
        ("mlx5_1", "enp27s0f0np0", True),
        # mlx5_10  port  1  ==>  ibp204s0       (Down)
        ("mlx5_10", "ibp204s0", False),
        # mlx5_11  port  1  ==>  ibp220s0       (Down)
        ("mlx5_11", "ibp220s0", False),
        # mlx5_2   port  1  ==>  enp27s0f1np1   (Down)
        ("mlx5_2", "enp27s0f1np1", False),
        # mlx5_3   port  1  ==>  ibp60s0        (Down)
        ("mlx5_3", "ibp60s0", False),
        # mlx5_4   port  1  ==>  ibp77s0        (Down)
        ("mlx5_4", "ibp77s0", False),
        # mlx5_5   port  1  ==>  ibp94s0        (Down)
        ("mlx5_5", "ibp94s0", False),
        # mlx5_6   port  1  ==>  ibp156s0       (Down)
        ("mlx5_6", "ibp156s0", False),
        # mlx5_7   port  1  ==>  enp157s0f0np0  (Up)
        ("mlx5_7", "enp157s0f0np0", True),
        # mlx5_8   port  1  ==>  enp157s0f1np1  (Down)
        ("mlx5_8", "enp157s0f1np1", False),
        # mlx5_9   port  1  ==>  ibp188s0       (Down)
        ("mlx5_9", "ibp188s0", False),
    ]
    assert all(one.number == 1 for one in found)


def test_the_tools_own_spacing_is_read_as_well():
    assert read_ibdev2netdev("mlx5_0 port 2 ==> ib1 (Up)\n") == (
        PortInterface(adapter="mlx5_0", number=2, interface="ib1", up=True),
    )


def test_an_interface_of_unknown_state_is_neither_up_nor_down():
    (one,) = read_ibdev2netdev("mlx5_0 port 1 ==> ib0 (Dormant)\n")
    assert one.up is None


def test_no_output_is_no_ports_and_another_text_is_quoted():
    assert read_ibdev2netdev("") == ()
    with pytest.raises(Unreadable, match="'command not found'"):
        read_ibdev2netdev("command not found\n")
