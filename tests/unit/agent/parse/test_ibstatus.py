"""ibstatus: ports as sysfs has them, from a script."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.ibstatus import StatusPort, read_ibstatus

FIXTURES = Path(__file__).parents[3] / "fixtures" / "ibstatus"


def test_ports_of_an_a100_node():
    ports = read_ibstatus((FIXTURES / "a100-8.txt").read_text())
    assert [port.adapter for port in ports] == [f"mlx5_{number}" for number in range(9)]
    assert all(port.number == 1 for port in ports)
    # Infiniband device 'mlx5_0' port 1 status:
    #     default gid:     fe80:0000:0000:0000:0015:5dff:fd34:11eb
    #     base lid:        0x33bf
    #     state:           4: ACTIVE
    #     phys state:      5: LinkUp
    #     rate: 200 Gb/sec (4X HDR), link_layer: InfiniBand
    assert ports[0] == StatusPort(
        adapter="mlx5_0",
        number=1,
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate=200_000_000_000,
        lid=13247,
        sm_lid=1,  # sm lid:          0x1
        port_guid="0x00155dfffd3411eb",
    )
    for port in ports[:8]:
        # state: 4: ACTIVE, phys state: 5: LinkUp, rate: 200 Gb/sec (4X HDR)
        assert (port.state, port.physical_state) == ("ACTIVE", "LinkUp")
        assert (port.rate, port.link_layer) == (200_000_000_000, "InfiniBand")
    # base lid: 0x33bf 0x33be 0x33cb 0x33dc 0x33f5 0x33f4 0x33f6 0x33f9, of mlx5_8 0x0
    lids = [13247, 13246, 13259, 13276, 13301, 13300, 13302, 13305, None]
    assert [port.lid for port in ports] == lids
    # default gid: ...:11eb to ...:11f2, of mlx5_8 unknown
    last = ["eb", "ec", "ed", "ee", "ef", "f0", "f1", "f2"]
    assert [port.port_guid for port in ports[:8]] == [
        f"0x00155dfffd3411{digits}" for digits in last
    ]
    # Infiniband device 'mlx5_8' port 1 status:
    #     default gid:     unknown
    #     base lid:        0x0
    #     state:           4: ACTIVE
    #     phys state:      5: LinkUp
    #     rate: 40 Gb/sec (4X QDR), link_layer: Ethernet
    assert ports[8] == StatusPort(
        adapter="mlx5_8",
        number=1,
        link_layer="Ethernet",
        state="ACTIVE",
        physical_state="LinkUp",
        rate=40_000_000_000,
    )


def test_a_machine_without_adapters_has_no_ports():
    # As ibstatus of infiniband-diags 44.0 says it, with exit status 255.
    assert read_ibstatus("Fatal error:  No devices\n") == ()
    assert read_ibstatus("") == ()


def test_another_text_is_quoted():
    with pytest.raises(Unreadable, match="'Fatal error:  sys files not found'"):
        read_ibstatus("Fatal error:  sys files not found\n")
