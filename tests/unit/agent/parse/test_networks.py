"""The kernel's tables of IP networks."""

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.networks import Network, network_of, read_inet6, read_routes

# /proc/net/route of a virtual machine, Linux 6.18, with a route through a gateway and a refusing
# one added. Addresses are little-endian: 000200C0 is 192.0.2.0.
ROUTES = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT      \n"
    "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0      \n"
    "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0      \n"
    "eth0\t000010AC\t010200C0\t0003\t0\t0\t0\t0000F0FF\t0\t0\t0      \n"
    "*\t0000000A\t00000000\t0201\t0\t0\t0\t000000FF\t0\t0\t0      \n"
    "eth1\tbroken\n"
)
# /proc/net/if_inet6 of the same machine.
INET6 = (
    "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"
    "fd000000000000000000000000000002 04 40 00 82     eth0\n"
    "00000000000000000000000000000001 01 80 10 80       lo\n"
    "nonsense\n"
)


def test_networks_without_a_gateway_are_those_an_interface_is_on():
    # eth0  000200C0  00000000  0001 ... 00FFFFFF
    assert read_routes(ROUTES) == (Network(interface="eth0", network="192.0.2.0/24"),)


def test_link_local_addresses_of_ipv6_are_no_network():
    assert read_inet6(INET6) == (
        # fd00...02  04  40: of 64 bits
        Network(interface="eth0", network="fd00::/64"),
        # 00...01  01  80: of 128 bits
        Network(interface="lo", network="::1/128"),
    )


def test_the_narrowest_network_of_the_interface_is_taken():
    networks = (
        Network(interface="eth2", network="0.0.0.0/0"),
        Network(interface="eth2", network="10.0.0.0/8"),
        Network(interface="eth2", network="10.1.2.0/24"),
        Network(interface="eth3", network="10.1.2.0/28"),
    )
    assert network_of("10.1.2.9", "eth2", networks) == "10.1.2.0/24"
    assert network_of("10.1.2.9", "eth3", networks) == "10.1.2.0/28"
    assert network_of("10.9.9.9", "eth2", networks) == "10.0.0.0/8"
    assert network_of("192.0.2.1", "eth2", networks) is None
    assert network_of("10.1.2.9", "eth4", networks) is None
    assert network_of("no address", "eth2", networks) is None


def test_a_text_that_does_not_name_its_columns_is_quoted():
    with pytest.raises(Unreadable, match="'eth0 1 2'"):
        read_routes("eth0 1 2\n")


def test_empty_tables_have_no_networks():
    assert read_routes("") == ()
    assert read_inet6("") == ()
