"""/sys/class/infiniband: states, rates, counters, and which address RoCE v2 leaves from."""

from pathlib import Path

import pytest

from llmgw.model.fabric import Port, PortCounter
from llmgw_agent.parse.infiniband import IDENTITY, READINGS, TOOLS, identity_of, read_ports
from llmgw_agent.parse.networks import Network
from llmgw_agent.parse.tree import read_tree
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "sys-class-infiniband"

HARDWARE = {
    # gid_attrs/types and gids as the kernel prints them: an empty place has a GID of zeros, and
    # its type can't be read.
    "mlx5_0/node_guid": "946d:ae03:df9c:0890",
    "mlx5_0/device/net/ens1f0/dev_port": "0",
    "mlx5_0/ports/1/link_layer": "Ethernet",
    "mlx5_0/ports/1/state": "4: ACTIVE",
    "mlx5_0/ports/1/phys_state": "5: LinkUp",
    "mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)",
    "mlx5_0/ports/1/lid": "0x0",
    "mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8",
    "mlx5_0/ports/1/gids/1": "fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8",
    "mlx5_0/ports/1/gids/2": "0000:0000:0000:0000:0000:ffff:ac13:003c",
    "mlx5_0/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:ac13:003c",
    "mlx5_0/ports/1/gids/4": "0000:0000:0000:0000:0000:0000:0000:0000",
    "mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1",
    "mlx5_0/ports/1/gid_attrs/types/1": "RoCE v2",
    "mlx5_0/ports/1/gid_attrs/types/2": "IB/RoCE v1",
    "mlx5_0/ports/1/gid_attrs/types/3": "RoCE v2",
    "mlx5_0/ports/1/gid_attrs/ndevs/0": "ens1f0",
    "mlx5_0/ports/1/gid_attrs/ndevs/1": "ens1f0",
    "mlx5_0/ports/1/gid_attrs/ndevs/2": "ens1f0",
    "mlx5_0/ports/1/gid_attrs/ndevs/3": "ens1f0",
}


def port_of(files: dict[str, str], *networks: Network) -> Port:
    return only(read_ports(files, networks))


@pytest.fixture
def h100() -> dict[str, Port]:
    text = (FIXTURES / "h100-mlx5.tsv").read_text()
    return {port.adapter: port for port in read_ports(read_tree(text))}


def counters(port: Port) -> dict[str, PortCounter]:
    return {counter.name: counter for counter in port.counters or ()}


def test_ports_of_an_h100_node_have_state_rate_and_layer(h100: dict[str, Port]):
    assert list(h100) == ["mlx5_0", "mlx5_1", "mlx5_bond_0"]
    assert all(port.number == 1 for port in h100.values())
    # mlx5_0/ports/1/state  4: ACTIVE
    # mlx5_0/ports/1/phys_state  5: LinkUp
    # mlx5_0/ports/1/rate  400 Gb/sec (4X NDR)
    # mlx5_0/ports/1/link_layer  InfiniBand
    one = h100["mlx5_0"]
    assert (one.state, one.physical_state) == ("ACTIVE", "LinkUp")
    assert (one.rate, one.link_layer) == (400_000_000_000, "InfiniBand")
    # mlx5_1/ports/1/state  4: ACTIVE, phys_state  5: LinkUp
    # mlx5_1/ports/1/rate  400 Gb/sec (4X NDR), link_layer  InfiniBand
    other = h100["mlx5_1"]
    assert (other.state, other.physical_state) == ("ACTIVE", "LinkUp")
    assert (other.rate, other.link_layer) == (400_000_000_000, "InfiniBand")
    # mlx5_bond_0/ports/1/state  4: ACTIVE, phys_state  5: LinkUp
    # mlx5_bond_0/ports/1/rate  200 Gb/sec (2X NDR), link_layer  Ethernet
    bond = h100["mlx5_bond_0"]
    assert (bond.state, bond.physical_state) == ("ACTIVE", "LinkUp")
    assert (bond.rate, bond.link_layer) == (200_000_000_000, "Ethernet")


def test_what_the_listing_does_not_hold_is_none(h100: dict[str, Port]):
    # No node_guid, no gids, no lid and no device/net are among its lines.
    for port in h100.values():
        assert (port.node_guid, port.port_guid, port.lid) == (None, None, None)
        assert (port.interface, port.network, port.master_guid) == (None, None, None)


def test_counters_keep_the_names_and_values_of_sysfs(h100: dict[str, Port]):
    seen = counters(h100["mlx5_0"])
    # mlx5_0/ports/1/counters/port_rcv_data  230539874932483
    assert seen["port_rcv_data"].value == 230_539_874_932_483
    # mlx5_0/ports/1/counters/port_xmit_data  230442669431839
    assert seen["port_xmit_data"].value == 230_442_669_431_839
    # mlx5_0/ports/1/counters/port_rcv_errors  14
    assert seen["port_rcv_errors"].value == 14
    # mlx5_0/ports/1/counters/port_rcv_switch_relay_errors  1
    assert seen["port_rcv_switch_relay_errors"].value == 1
    # mlx5_0/ports/1/counters/port_xmit_wait  2489603687
    assert seen["port_xmit_wait"].value == 2_489_603_687
    # mlx5_0/ports/1/counters/symbol_error  0
    assert seen["symbol_error"].value == 0
    # mlx5_0/ports/1/hw_counters/roce_adp_retrans  3
    assert seen["roce_adp_retrans"].value == 3
    # mlx5_0/ports/1/hw_counters/rx_write_requests  3809045607
    assert seen["rx_write_requests"].value == 3_809_045_607
    # 23 lines of counters/, 24 of hw_counters/, of which lifespan is no counter.
    assert len(seen) == 46
    assert "lifespan" not in seen
    # mlx5_1/ports/1/counters/port_rcv_errors  14, port_rcv_switch_relay_errors  2
    other = counters(h100["mlx5_1"])
    assert (other["port_rcv_errors"].value, other["port_rcv_switch_relay_errors"].value) == (14, 2)
    # mlx5_1/ports/1/counters/port_rcv_data  205128687774249
    assert other["port_rcv_data"].value == 205_128_687_774_249
    # mlx5_bond_0/ports/1/counters/port_rcv_errors  14, port_rcv_switch_relay_errors  1
    bond = counters(h100["mlx5_bond_0"])
    assert (bond["port_rcv_errors"].value, bond["port_rcv_switch_relay_errors"].value) == (14, 1)


def test_a_counter_at_the_most_that_it_can_hold_says_so(h100: dict[str, Port]):
    full = {
        name: {counter.name for counter in port.counters or () if counter.at_ceiling}
        for name, port in h100.items()
    }
    assert full == {
        # mlx5_0/ports/1/counters/excessive_buffer_overrun_errors  15   (of 4 bits)
        "mlx5_0": {"excessive_buffer_overrun_errors"},
        # mlx5_1/ports/1/counters/excessive_buffer_overrun_errors  15
        # mlx5_1/ports/1/counters/link_downed  255   (of 8 bits)
        "mlx5_1": {"excessive_buffer_overrun_errors", "link_downed"},
        # mlx5_bond_0/ports/1/counters/excessive_buffer_overrun_errors  15
        "mlx5_bond_0": {"excessive_buffer_overrun_errors"},
    }
    # mlx5_0/ports/1/counters/link_downed  0
    assert counters(h100["mlx5_0"])["link_downed"].at_ceiling is False
    # mlx5_0/ports/1/hw_counters/out_of_buffer  0: how wide it is, the specification does not say.
    assert counters(h100["mlx5_0"])["out_of_buffer"].at_ceiling is None


@pytest.mark.parametrize(
    ("name", "value", "full"),
    [
        ("local_link_integrity_errors", 15, True),
        ("link_error_recovery", 255, True),
        ("link_error_recovery", 15, False),
        ("port_xmit_constraint_errors", 255, True),
        ("symbol_error", 65535, True),
        ("symbol_error", 255, False),
        ("VL15_dropped", 65535, True),
        ("port_xmit_wait", 4294967295, True),
        ("port_xmit_data", 4294967295, True),
        # More than 32 bits hold: the adapter counts with 64.
        ("port_xmit_data", 230442669431839, False),
    ],
)
def test_each_counter_has_its_own_ceiling(name: str, value: int, full: bool):
    port = port_of(
        {"mlx5_0/ports/1/state": "4: ACTIVE", f"mlx5_0/ports/1/counters/{name}": f"{value}"}
    )
    assert only(port.counters) == PortCounter(name=name, value=value, at_ceiling=full)


def test_a_counter_that_the_driver_does_not_keep_is_left_out_and_not_0():
    files = {
        "mlx5_0/ports/1/state": "4: ACTIVE",
        "mlx5_0/ports/1/counters/symbol_error": "N/A (no PMA)",
        "mlx5_0/ports/1/counters/link_downed": "3",
        # What a 64-bit counter says where the adapter has none.
        "mlx5_0/ports/1/counters/port_xmit_data": "18446744073709551615",
    }
    assert [counter.name for counter in port_of(files).counters or ()] == ["link_downed"]
    del files["mlx5_0/ports/1/counters/link_downed"]
    assert port_of(files).counters is None


def test_a_port_without_a_link_has_no_rate():
    files = {
        "mlx5_2/ports/1/link_layer": "Ethernet",
        "mlx5_2/ports/1/state": "1: DOWN",
        "mlx5_2/ports/1/phys_state": "3: Disabled",
        "mlx5_2/ports/1/rate": "40 Gb/sec (4X QDR)",
    }
    port = port_of(files)
    assert (port.state, port.physical_state, port.rate) == ("DOWN", "Disabled", None)


def test_an_unknown_state_and_an_unknown_layer_are_none():
    files = {
        "efa_0/ports/1/link_layer": "Unspecified",
        "efa_0/ports/1/state": "9: SIDEWAYS",
        "efa_0/ports/1/phys_state": "0: <unknown>",
        "efa_0/ports/1/rate": "fast",
    }
    port = port_of(files)
    assert (port.link_layer, port.state, port.physical_state, port.rate) == (None,) * 4


def test_an_infiniband_port_has_its_guids_and_its_lid():
    files = {
        "ibp26s0/node_guid": "946d:ae03:6393:5a2c",
        "ibp26s0/ports/1/link_layer": "InfiniBand",
        "ibp26s0/ports/1/state": "4: ACTIVE",
        "ibp26s0/ports/1/lid": "0x4b",
        "ibp26s0/ports/1/gids/0": "fe80:0000:0000:0000:946d:ae03:6393:5a2c",
    }
    port = port_of(files)
    assert (port.node_guid, port.port_guid) == ("0x946dae0363935a2c", "0x946dae0363935a2c")
    assert port.lid == 75


def test_guids_of_zeros_and_lid_0_are_none():
    files = {
        "rxe0/node_guid": "0000:0000:0000:0000",
        "rxe0/ports/1/lid": "0x0",
        "rxe0/ports/1/gids/0": "0000:0000:0000:0000:0000:0000:0000:0000",
    }
    port = port_of(files)
    assert (port.node_guid, port.port_guid, port.lid) == (None, None, None)


def test_a_roce_port_is_on_the_network_of_its_v2_address():
    port = port_of(HARDWARE, Network(interface="ens1f0", network="172.19.0.0/16"))
    assert port.interface == "ens1f0"
    assert port.network == "172.19.0.0/16"
    assert port.port_guid == "0x0e42a1fffe5d4db8"


def test_without_its_interfaces_network_a_roce_port_has_none():
    elsewhere = Network(interface="ens1f1", network="172.19.0.0/16")
    assert port_of(HARDWARE).network is None
    assert port_of(HARDWARE, elsewhere).network is None


def test_a_v1_address_alone_is_no_network():
    files = {**HARDWARE, "mlx5_0/ports/1/gid_attrs/types/3": "IB/RoCE v1"}
    network = Network(interface="ens1f0", network="172.19.0.0/16")
    assert port_of(files, network).network is None


def test_an_infiniband_port_has_no_roce_network():
    files = {**HARDWARE, "mlx5_0/ports/1/link_layer": "InfiniBand"}
    network = Network(interface="ens1f0", network="172.19.0.0/16")
    assert port_of(files, network).network is None


def test_a_vlan_does_not_hide_the_interfaces_own_address():
    files = {
        **HARDWARE,
        "mlx5_0/ports/1/gids/2": "0000:0000:0000:0000:0000:ffff:0a64:0001",
        "mlx5_0/ports/1/gid_attrs/types/2": "RoCE v2",
        "mlx5_0/ports/1/gid_attrs/ndevs/2": "ens1f0.100",
    }
    networks = (
        Network(interface="ens1f0.100", network="10.100.0.0/24"),
        Network(interface="ens1f0", network="172.19.0.0/16"),
    )
    assert port_of(files, *networks).network == "172.19.0.0/16"


def test_an_ipv6_address_is_a_network_where_there_is_no_ipv4_one():
    files = {
        **HARDWARE,
        "mlx5_0/ports/1/gids/3": "2001:0db8:0000:0001:0000:0000:0000:000a",
        "mlx5_0/ports/1/gid_attrs/types/2": "IB/RoCE v1",
    }
    networks = (Network(interface="ens1f0", network="2001:db8:0:1::/64"),)
    assert port_of(files, *networks).network == "2001:db8:0:1::/64"


def test_the_interface_of_each_port_of_an_adapter_is_told_by_its_number():
    files = {
        "mlx4_0/device/net/ib0/dev_port": "0",
        "mlx4_0/device/net/ib0.8001/dev_port": "0",
        "mlx4_0/device/net/ib1/dev_port": "1",
        "mlx4_0/ports/1/state": "4: ACTIVE",
        "mlx4_0/ports/2/state": "1: DOWN",
    }
    assert [(port.number, port.interface) for port in read_ports(files)] == [(1, "ib0"), (2, "ib1")]


def test_ports_come_as_people_count():
    names = ["mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11", "mlx5_2", "mlx5_bond_0"]
    files = {f"{name}/ports/1/state": "4: ACTIVE" for name in names}
    assert [port.adapter for port in read_ports(files)] == [
        *("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_11", "mlx5_bond_0")
    ]


def test_what_changes_is_no_part_of_an_adapters_identity():
    files = {"node_guid": "x", "ports/1/gids/0": "y", "ports/1/state": "4: ACTIVE"}
    more = {"ports/1/counters/symbol_error": "0", "ports/1/rate": "1", "ports/1/lid": "0x1"}
    assert identity_of({**files, **more}) == {"node_guid": "x", "ports/1/gids/0": "y"}
    assert not set(IDENTITY) & set(READINGS)


def test_the_tool_reads_a_listing():
    tool = only(TOOLS)
    assert tool.read("mlx5_0/ports/1/rate\t2.5 Gb/sec (1X SDR)\n") == (
        Port(adapter="mlx5_0", number=1, rate=2_500_000_000),
    )
