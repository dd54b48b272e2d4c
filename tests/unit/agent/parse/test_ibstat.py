"""ibstat: adapters and ports, with all that it prints when something is wrong."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import Port
from llmgw_agent.parse.ibstat import panic_of, read_ibstat
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "ibstat"


def ports(name: str) -> dict[str, Port]:
    found = {port.adapter: port for port in read_ibstat((FIXTURES / name).read_text())}
    # Every adapter of the recorded outputs has `Number of ports: 1`.
    assert all(port.number == 1 for port in found.values())
    return found


def test_an_a100_node_with_one_ethernet_port():
    found = ports("a100-8ib-1eth.txt")
    assert list(found) == [f"mlx5_{number}" for number in range(9)]
    # CA 'mlx5_0'
    #   Node GUID: 0x1e918effa2b75ba0
    #   Port 1:
    #     State: Active, Physical state: LinkUp, Rate: 200, Base lid: 0
    #     Port GUID: 0x1c918eff2583ada0, Link layer: Ethernet
    assert found["mlx5_0"] == Port(
        adapter="mlx5_0",
        number=1,
        link_layer="Ethernet",
        state="ACTIVE",
        physical_state="LinkUp",
        rate=200_000_000_000,
        node_guid="0x1e918effa2b75ba0",
        port_guid="0x1c918eff2583ada0",
    )
    del found["mlx5_0"]
    for port in found.values():
        # State: Active, Physical state: LinkUp, Rate: 200, Link layer: InfiniBand
        assert (port.state, port.physical_state) == ("ACTIVE", "LinkUp")
        assert (port.rate, port.link_layer) == (200_000_000_000, "InfiniBand")
        # Node GUID and Port GUID are the same on each of them.
        assert port.node_guid == port.port_guid
    assert {name: (port.lid, port.port_guid) for name, port in found.items()} == {
        # Base lid: 1369, Port GUID: 0x6b9d7f2ce3e37463
        "mlx5_1": (1369, "0x6b9d7f2ce3e37463"),
        # Base lid: 1372, Port GUID: 0xb6f5686b61108bd3
        "mlx5_2": (1372, "0xb6f5686b61108bd3"),
        # Base lid: 1374, Port GUID: 0xbcaf66ff221181e3
        "mlx5_3": (1374, "0xbcaf66ff221181e3"),
        # Base lid: 1379, Port GUID: 0xff76402321c50b1f
        "mlx5_4": (1379, "0xff76402321c50b1f"),
        # Base lid: 1383, Port GUID: 0x85b89152acfea37f
        "mlx5_5": (1383, "0x85b89152acfea37f"),
        # Base lid: 1387, Port GUID: 0xf405e6a516757655
        "mlx5_6": (1387, "0xf405e6a516757655"),
        # Base lid: 1392, Port GUID: 0x8127c63e2c2ef85f
        "mlx5_7": (1392, "0x8127c63e2c2ef85f"),
        # Base lid: 1396, Port GUID: 0x4c1037319651d70a
        "mlx5_8": (1396, "0x4c1037319651d70a"),
    }


def test_adapters_before_a_panic_are_kept():
    text = (FIXTURES / "a100-ibpanic-exit255.txt").read_text()
    found = ports("a100-ibpanic-exit255.txt")
    for port in found.values():
        # State: Active, Physical state: LinkUp, Rate: 200, Link layer: InfiniBand
        assert (port.state, port.physical_state) == ("ACTIVE", "LinkUp")
        assert (port.rate, port.link_layer) == (200_000_000_000, "InfiniBand")
    assert {name: (port.lid, port.node_guid, port.port_guid) for name, port in found.items()} == {
        # Base lid: 13247, Node GUID: 0x00155dff801c69eb, Port GUID: 0x00155dff04ea67eb
        "mlx5_0": (13247, "0x00155dff801c69eb", "0x00155dff04ea67eb"),
        # Base lid: 13246, Node GUID: 0x00155dff801c69ec, Port GUID: 0x00155dff04ea67ec
        "mlx5_1": (13246, "0x00155dff801c69ec", "0x00155dff04ea67ec"),
        # Base lid: 13259, Node GUID: 0x00155dff801c69ed, Port GUID: 0x00155dff04ea67ed
        "mlx5_2": (13259, "0x00155dff801c69ed", "0x00155dff04ea67ed"),
        # Base lid: 13276, Node GUID: 0x00155dff801c69ee, Port GUID: 0x00155dff04ea67ee
        "mlx5_3": (13276, "0x00155dff801c69ee", "0x00155dff04ea67ee"),
        # Base lid: 13301, Node GUID: 0x00155dff801c69ef, Port GUID: 0x00155dff04ea67ef
        "mlx5_4": (13301, "0x00155dff801c69ef", "0x00155dff04ea67ef"),
        # Base lid: 13300, Node GUID: 0x00155dff801c69f0, Port GUID: 0x00155dff04ea67f0
        "mlx5_5": (13300, "0x00155dff801c69f0", "0x00155dff04ea67f0"),
        # Base lid: 13302, Node GUID: 0x00155dff801c69f1, Port GUID: 0x00155dff04ea67f1
        "mlx5_6": (13302, "0x00155dff801c69f1", "0x00155dff04ea67f1"),
        # Base lid: 13305, Node GUID: 0x00155dff801c69f2, Port GUID: 0x00155dff04ea67f2
        "mlx5_7": (13305, "0x00155dff801c69f2", "0x00155dff04ea67f2"),
    }
    # ibpanic: [1400444] main: stat of IB device 'mlx5_8' failed: No such file or directory
    assert panic_of(text) == (
        "[1400444] main: stat of IB device 'mlx5_8' failed: No such file or directory"
    )


def test_bonds_of_a_bluefield():
    assert tuple(ports("bf2-bonds-roce.txt").values()) == (
        # State: Active, Physical state: LinkUp, Rate: 200, Base lid: 0, Link layer: Ethernet
        # Node GUID: 0xc470bd036275e4ee, Port GUID: 0x02259dff258e26b8
        Port(
            adapter="mlx5_bond_0",
            number=1,
            link_layer="Ethernet",
            state="ACTIVE",
            physical_state="LinkUp",
            rate=200_000_000_000,
            node_guid="0xc470bd036275e4ee",
            port_guid="0x02259dff258e26b8",
        ),
        # Node GUID: 0xc470bd03e6457332, Port GUID: 0x02259dffafa3668a, the rest as above
        Port(
            adapter="mlx5_bond_1",
            number=1,
            link_layer="Ethernet",
            state="ACTIVE",
            physical_state="LinkUp",
            rate=200_000_000_000,
            node_guid="0xc470bd03e6457332",
            port_guid="0x02259dffafa3668a",
        ),
    )


def test_a_node_with_twelve_roce_ports_is_on_no_infiniband_fabric():
    found = ports("h100-12-roce.txt")
    for port in found.values():
        # State: Active, Physical state: LinkUp, Base lid: 0, Link layer: Ethernet
        assert (port.state, port.physical_state) == ("ACTIVE", "LinkUp")
        assert (port.lid, port.link_layer) == (None, "Ethernet")
    assert {name: (port.rate, port.node_guid, port.port_guid) for name, port in found.items()} == {
        # Rate: 400, Node GUID: 0xa088c2036a35142a, Port GUID: 0xa288c2ffc9d6812a
        "mlx5_0": (400_000_000_000, "0xa088c2036a35142a", "0xa288c2ffc9d6812a"),
        # Rate: 100, Node GUID: 0xe8ebd303e74dd5da, Port GUID: 0x00000000dbc71c00
        "mlx5_1": (100_000_000_000, "0xe8ebd303e74dd5da", "0x00000000dbc71c00"),
        # Rate: 100, Node GUID: 0xe8ebd303e74dd5db, Port GUID: 0x00000000dbc71c00
        "mlx5_2": (100_000_000_000, "0xe8ebd303e74dd5db", "0x00000000dbc71c00"),
        # Rate: 400, Node GUID: 0xa088c20362b79af2, Port GUID: 0xa288c2ff2ee766f2
        "mlx5_3": (400_000_000_000, "0xa088c20362b79af2", "0xa288c2ff2ee766f2"),
        # Rate: 400, Node GUID: 0xa088c2030cfd9372, Port GUID: 0xa288c2fff0fe4672
        "mlx5_4": (400_000_000_000, "0xa088c2030cfd9372", "0xa288c2fff0fe4672"),
        # Rate: 400, Node GUID: 0xa088c203767f4f76, Port GUID: 0xa288c2ff95408f76
        "mlx5_5": (400_000_000_000, "0xa088c203767f4f76", "0xa288c2ff95408f76"),
        # Rate: 400, Node GUID: 0xa088c203767f4f6e, Port GUID: 0xa288c2ff95408f6e
        "mlx5_6": (400_000_000_000, "0xa088c203767f4f6e", "0xa288c2ff95408f6e"),
        # Rate: 100, Node GUID: 0xe8ebd303bfaf20d6, Port GUID: 0x00000000dbc71c00
        "mlx5_7": (100_000_000_000, "0xe8ebd303bfaf20d6", "0x00000000dbc71c00"),
        # Rate: 100, Node GUID: 0xe8ebd303bfaf20d7, Port GUID: 0x00000000dbc71c00
        "mlx5_8": (100_000_000_000, "0xe8ebd303bfaf20d7", "0x00000000dbc71c00"),
        # Rate: 400, Node GUID: 0xa088c2030cfd93f2, Port GUID: 0xa288c2fff0fe46f2
        "mlx5_9": (400_000_000_000, "0xa088c2030cfd93f2", "0xa288c2fff0fe46f2"),
        # Rate: 400, Node GUID: 0xa088c2030cfd93fa, Port GUID: 0xa288c2fff0fe46fa
        "mlx5_10": (400_000_000_000, "0xa088c2030cfd93fa", "0xa288c2fff0fe46fa"),
        # Rate: 400, Node GUID: 0xa088c203767f4f8e, Port GUID: 0xa288c2ff95408f8e
        "mlx5_11": (400_000_000_000, "0xa088c203767f4f8e", "0xa288c2ff95408f8e"),
    }


UP = ("ACTIVE", "LinkUp")
DISABLED = ("DOWN", "Disabled")


def test_ports_that_are_disabled_have_no_rate():
    found = ports("h100-3-down-disabled.txt")
    seen = {
        name: ((port.state, port.physical_state), port.rate, port.lid, port.link_layer)
        for name, port in found.items()
    }
    assert seen == {
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 75, InfiniBand
        "mlx5_0": (UP, 400_000_000_000, 75, "InfiniBand"),
        # State: Active, Physical state: LinkUp, Rate: 100, Base lid: 0, Ethernet
        "mlx5_1": (UP, 100_000_000_000, None, "Ethernet"),
        # State: Down, Physical state: Disabled, Rate: 40, Base lid: 0, Ethernet
        "mlx5_2": (DISABLED, None, None, "Ethernet"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 143, InfiniBand
        "mlx5_3": (UP, 400_000_000_000, 143, "InfiniBand"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 343, InfiniBand
        "mlx5_4": (UP, 400_000_000_000, 343, "InfiniBand"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 454, InfiniBand
        "mlx5_5": (UP, 400_000_000_000, 454, "InfiniBand"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 597, InfiniBand
        "mlx5_6": (UP, 400_000_000_000, 597, "InfiniBand"),
        # State: Down, Physical state: Disabled, Rate: 40, Base lid: 0, Ethernet
        "mlx5_7": (DISABLED, None, None, "Ethernet"),
        # State: Down, Physical state: Disabled, Rate: 40, Base lid: 0, Ethernet
        "mlx5_8": (DISABLED, None, None, "Ethernet"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 771, InfiniBand
        "mlx5_9": (UP, 400_000_000_000, 771, "InfiniBand"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 828, InfiniBand
        "mlx5_10": (UP, 400_000_000_000, 828, "InfiniBand"),
        # State: Active, Physical state: LinkUp, Rate: 400, Base lid: 944, InfiniBand
        "mlx5_11": (UP, 400_000_000_000, 944, "InfiniBand"),
    }
    # Node GUID: 0x946dae0363935a2c, Port GUID: 0x946dae0363935a2c
    assert found["mlx5_0"].node_guid == found["mlx5_0"].port_guid == "0x946dae0363935a2c"
    # Node GUID: 0x946dae03df9c0891, Port GUID: 0x966daeff11835591
    assert found["mlx5_2"].node_guid == "0x946dae03df9c0891"
    assert found["mlx5_2"].port_guid == "0x966daeff11835591"


def test_a_machine_without_adapters_prints_nothing_and_has_no_ports():
    assert (FIXTURES / "no-device.txt").read_text() == ""
    assert ports("no-device.txt") == {}


def test_a_simulated_adapter_calls_infiniband_ib():
    # CA 'ibsim0', Node GUID: 0xb8cef60300100000
    #   State: Active, Physical state: LinkUp, Rate: 10, Base lid: 1
    #   Port GUID: 0xb8cef60300100001, Link layer: IB
    assert only(tuple(ports("sim-active.txt").values())) == Port(
        adapter="ibsim0",
        number=1,
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate=10_000_000_000,
        lid=1,
        node_guid="0xb8cef60300100000",
        port_guid="0xb8cef60300100001",
    )


def test_an_adapter_of_two_ports_has_two():
    text = (
        "CA 'mlx4_0'\n\tNode GUID: 0x0002c90300000001\n"
        "\tPort 1:\n\t\tState: Active\n\t\tRate: 56\n"
        "\tPort 2:\n\t\tState: Initializing\n\t\tPhysical state: LinkUp\n"
    )
    one, two = read_ibstat(text)
    assert (one.number, one.state, one.rate) == (1, "ACTIVE", 56_000_000_000)
    assert (two.number, two.state, two.rate) == (2, "INIT", None)
    assert one.node_guid == two.node_guid == "0x0002c90300000001"


def test_a_text_without_an_adapter_is_quoted():
    with pytest.raises(Unreadable, match=r"ibpanic: \[7\] main"):
        read_ibstat("ibpanic: [7] main: 'nodev' IB device can't be found: Success\n")
    assert panic_of("CA 'mlx5_0'\n") is None
