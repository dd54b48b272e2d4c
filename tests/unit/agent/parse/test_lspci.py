"""Every recorded listing of the bus, its lines quoted beside what a person reads in them."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.lspci import BusDevice, BusLink, read

FIXTURES = Path(__file__).parents[3] / "fixtures" / "lspci"


def recorded(name: str) -> tuple[BusDevice, ...]:
    return read((FIXTURES / name).read_text())


def test_a_gb200_tray_has_four_gpus_in_domains_of_their_own():
    found = recorded("gb200.txt")
    gpus = [one for one in found if one.kind == "gpu"]
    # 0008:01:00.0 3D controller: NVIDIA Corporation Device 2941 (rev a1)
    # 0009:01:00.0 3D controller: NVIDIA Corporation Device 2941 (rev a1)
    # 0018:01:00.0 3D controller: NVIDIA Corporation Device 2941 (rev a1)
    # 0019:01:00.0 3D controller: NVIDIA Corporation Device 2941 (rev a1)
    assert [one.address for one in gpus] == [
        "0008:01:00.0",
        "0009:01:00.0",
        "0018:01:00.0",
        "0019:01:00.0",
    ]
    assert {(one.class_name, one.vendor, one.name, one.revision) for one in gpus} == {
        ("3D controller", "NVIDIA Corporation", "Device 2941", "a1")
    }
    assert {(one.gone, one.capable, one.now, one.driver) for one in gpus} == {
        (False, None, None, None)
    }


def test_a_gb200_tray_has_four_infiniband_and_two_bluefield_adapters():
    adapters = [one for one in recorded("gb200.txt") if one.kind == "adapter"]
    # 0000:03:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
    # 0002:03:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
    # 0006:03:00.0 Ethernet controller: Mellanox Technologies MT43244 BlueField-3 integrated
    #   ConnectX-7 network controller (rev 01)          (and 0006:03:00.1)
    # 0010:03:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
    # 0012:03:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
    # 0016:03:00.0 Ethernet controller: Mellanox Technologies MT43244 BlueField-3 integrated
    #   ConnectX-7 network controller (rev 01)          (and 0016:03:00.1)
    infiniband, bluefield = "Infiniband controller", "Ethernet controller"
    assert [(one.pci, one.class_name) for one in adapters] == [
        ("0000:03:00", infiniband),
        ("0002:03:00", infiniband),
        ("0006:03:00", bluefield),
        ("0006:03:00", bluefield),
        ("0010:03:00", infiniband),
        ("0012:03:00", infiniband),
        ("0016:03:00", bluefield),
        ("0016:03:00", bluefield),
    ]
    assert adapters[0].name == "MT2910 Family [ConnectX-7]"
    assert adapters[0].vendor == "Mellanox Technologies"
    assert adapters[0].revision is None
    assert (adapters[2].address, adapters[3].address) == ("0006:03:00.0", "0006:03:00.1")
    assert adapters[2].name == "MT43244 BlueField-3 integrated ConnectX-7 network controller"
    assert adapters[2].revision == "01"


def test_bridges_of_the_same_makers_are_neither_gpus_nor_switches():
    # 0008:00:00.0 PCI bridge: NVIDIA Corporation Device 22b1
    # 0006:03:00.2 DMA controller: Mellanox Technologies MT43244 BlueField-3 SoC Management …
    found = recorded("gb200.txt")
    assert len(found) == 12
    assert "switch" not in {one.kind for one in found}


def test_a_gpu_an_adapter_and_a_switch_with_their_links():
    gpu, adapter, switch = recorded("h100-gpu-and-nic.txt")
    # 19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
    #   NUMA node: 0
    #   LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
    #   LnkSta: Speed 32GT/s (ok), Width x16 (ok)
    #   Kernel driver in use: nvidia
    assert gpu == BusDevice(
        kind="gpu",
        address="19:00.0",
        pci="0000:19:00",
        class_name="3D controller",
        name="Device 2330",
        vendor="NVIDIA Corporation",
        revision="a1",
        gone=False,
        capable=BusLink(speed=32.0, lanes=16),
        now=BusLink(speed=32.0, lanes=16),
        numa_node=0,
        driver="nvidia",
    )
    # 1a:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]
    #   LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
    #   LnkSta: Speed 32GT/s (ok), Width x16 (ok)
    #   Kernel driver in use: mlx5_core
    assert (adapter.kind, adapter.pci, adapter.driver) == ("adapter", "0000:1a:00", "mlx5_core")
    assert (adapter.capable, adapter.now) == (
        BusLink(speed=32.0, lanes=16),
        BusLink(speed=32.0, lanes=16),
    )
    assert (adapter.numa_node, adapter.revision) == (0, None)
    # 83:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)
    #   NUMA node: 1
    #   LnkCap: Port #0, Speed 16GT/s, Width x2, ASPM not supported
    #   LnkSta: Speed 16GT/s (ok), Width x2 (ok)
    #   Kernel driver in use: nvidia-nvswitch
    assert (switch.kind, switch.pci, switch.driver) == ("switch", "0000:83:00", "nvidia-nvswitch")
    assert (switch.capable, switch.now) == (
        BusLink(speed=16.0, lanes=2),
        BusLink(speed=16.0, lanes=2),
    )
    assert switch.numa_node == 1


def test_a_card_that_reads_as_all_ones_is_gone():
    # 1c:00.0 VGA compatible controller: NVIDIA Corporation Device 2204 (rev ff)
    (card,) = recorded("rev-ff.txt")
    assert (card.kind, card.pci, card.name, card.gone) == ("gpu", "0000:1c:00", "Device 2204", True)


def test_a_machine_without_gpu_has_none_and_no_link():
    # 00:00.0 Host bridge: Intel Corporation Device 0d57
    assert recorded("vm-no-gpu.txt") == ()


@pytest.mark.parametrize(
    ("told", "link"),
    [
        ("Speed 16GT/s (downgraded), Width x8 (downgraded)", BusLink(speed=16.0, lanes=8)),
        ("Speed 2.5GT/s (downgraded), Width x16", BusLink(speed=2.5, lanes=16)),
        ("Speed unknown (downgraded), Width x0 (downgraded)", BusLink()),
        ("Speed unknown, Width x63", BusLink()),
        ("something else", None),
    ],
)
def test_a_link_that_is_slower_or_down_is_read_as_it_is(told: str, link: BusLink | None):
    text = f"19:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n\t\tLnkSta:\t{told}\n"
    (card,) = read(text)
    assert card.now == link


def test_numbers_beside_names_are_read_and_no_numa_node_is_none():
    text = (
        "0000:19:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]"
        " (rev a1)\n\tNUMA node: -1\n\t!!! Unknown header type 7f\n"
    )
    (card,) = read(text)
    assert (card.class_name, card.name, card.ids) == (
        "3D controller",
        "GH100 [H100 SXM5 80GB]",
        "10de:2330",
    )
    assert card.numa_node is None
    assert card.gone


def test_text_without_any_device_is_refused_with_its_line():
    with pytest.raises(Unreadable, match="pcilib: Cannot open"):
        read("pcilib: Cannot open /proc/bus/pci\n")
    assert read("") == ()
