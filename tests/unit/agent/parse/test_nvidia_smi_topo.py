"""`nvidia-smi topo -m`: each recorded matrix as a person reads it; the lines are quoted beside."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.nvidia_smi_topo import (
    TopoAdapter,
    TopoGpu,
    Topology,
    TopoNic,
    TopoPeer,
    read_topology,
)

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-topo"


def matrix(name: str) -> Topology:
    return read_topology((FIXTURES / name).read_text())


def linked(gpu: TopoGpu) -> dict[int, int]:
    """Return the number of links to each other card."""
    return {peer.number: peer.nvlinks for peer in gpu.peers}


def near(gpu: TopoGpu | TopoNic) -> dict[str, str]:
    """Return the distances to adapters that are not across sockets."""
    return {
        adapter.name or adapter.column: adapter.distance
        for adapter in gpu.adapters
        if adapter.distance != "SYS"
    }


def test_two_cards_with_a_bridge():
    # GPU0     X      NV2     0-23            N/A
    # GPU1    NV2      X      0-23            N/A
    assert matrix("2x-gpu-nv2-no-nic.txt") == Topology(
        gpus=(
            TopoGpu(number=0, peers=(TopoPeer(number=1, distance="NV2", nvlinks=2),), cpus="0-23"),
            TopoGpu(number=1, peers=(TopoPeer(number=0, distance="NV2", nvlinks=2),), cpus="0-23"),
        )
    )


def test_two_cards_without_nvlink():
    # GPU0     X      PHB     0-11            N/A
    gpus = matrix("2x-gpu-phb.txt").gpus
    assert [gpu.peers for gpu in gpus] == [
        (TopoPeer(number=1, distance="PHB", nvlinks=0),),
        (TopoPeer(number=0, distance="PHB", nvlinks=0),),
    ]
    assert [(gpu.cpus, gpu.numa_node) for gpu in gpus] == [("0-11", None), ("0-11", None)]


def test_adapters_without_their_legend_have_no_names():
    topology = matrix("4x-h100-nic-legend-oddcpus.txt")
    # GPU0     X      NV6     NV6     NV6     PIX     SYS     SYS     SYS     6,14,22,30   3   N/A
    # GPU1 … 4,12,20,28 1; GPU2 … 7,15,23,31 7; GPU3 … 5,13,21,29 5
    assert [gpu.numa_node for gpu in topology.gpus] == [3, 1, 7, 5]
    assert [gpu.cpus for gpu in topology.gpus] == [
        *("6,14,22,30", "4,12,20,28", "7,15,23,31", "5,13,21,29")
    ]
    assert [linked(gpu) for gpu in topology.gpus] == [
        {1: 6, 2: 6, 3: 6},
        {0: 6, 2: 6, 3: 6},
        {0: 6, 1: 6, 3: 6},
        {0: 6, 1: 6, 2: 6},
    ]
    # NICn is PIX to GPUn, SYS to the others
    assert [near(gpu) for gpu in topology.gpus] == [
        *({"NIC0": "PIX"}, {"NIC1": "PIX"}, {"NIC2": "PIX"}, {"NIC3": "PIX"})
    ]
    assert all(adapter.name is None for gpu in topology.gpus for adapter in gpu.adapters)
    # NIC0    PIX     SYS     SYS     SYS      X      SYS     SYS     SYS
    assert [(nic.column, nic.name, len(nic.adapters)) for nic in topology.nics] == [
        *(("NIC0", None, 3), ("NIC1", None, 3), ("NIC2", None, 3), ("NIC3", None, 3))
    ]


def test_eight_a100_and_ten_adapters_between_tabs():
    topology = matrix("8x-a100-10nic-tabs-full.txt")
    assert [gpu.number for gpu in topology.gpus] == [0, 1, 2, 3, 4, 5, 6, 7]
    for gpu in topology.gpus:
        assert linked(gpu) == {n: 12 for n in range(8) if n != gpu.number}  # NV12 everywhere
        assert len(gpu.adapters) == 10
    # … 48-63,176-191 3; 16-31,144-159 1; 112-127,240-255 7; 80-95,208-223 5
    assert [gpu.numa_node for gpu in topology.gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert topology.gpus[0].cpus == "48-63,176-191"
    # GPU0  X  NV12 …  PXB  PXB  SYS …; NIC Legend: NIC0: mlx5_0 … NIC9: mlx5_9
    assert [near(gpu) for gpu in topology.gpus] == [
        *({"mlx5_0": "PXB", "mlx5_1": "PXB"}, {"mlx5_0": "PXB", "mlx5_1": "PXB"}),
        *({"mlx5_2": "PXB", "mlx5_3": "PXB"}, {"mlx5_2": "PXB", "mlx5_3": "PXB"}),
        *({"mlx5_4": "PXB", "mlx5_5": "PXB"}, {"mlx5_4": "PXB", "mlx5_5": "PXB"}),
        *({"mlx5_6": "PXB", "mlx5_7": "PXB"}, {"mlx5_6": "PXB", "mlx5_7": "PXB"}),
    ]
    # NIC8 SYS … X  PIX; NIC9 SYS … PIX  X, and both rows end in two empty columns
    eight, nine = topology.nics[8:]
    assert (eight.name, near(eight)) == ("mlx5_8", {"mlx5_9": "PIX"})
    assert (nine.name, near(nine)) == ("mlx5_9", {"mlx5_8": "PIX"})


def test_an_adapter_that_heads_its_own_column():
    topology = matrix("8x-a100-mlx5-named.txt")
    # GPU4 …  SYS     112-127 7 (one blank between the last two columns)
    assert [gpu.numa_node for gpu in topology.gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert topology.gpus[4].cpus == "112-127"
    assert topology.gpus[2].adapters == (
        TopoAdapter(column="mlx5_0", name="mlx5_0", distance="PXB"),  # GPU2 … PXB 16-31 1
    )
    # mlx5_0 is PXB from GPU2 and GPU3, SYS from the rest
    assert [near(gpu) for gpu in topology.gpus] == [
        *({}, {}, {"mlx5_0": "PXB"}, {"mlx5_0": "PXB"}, {}, {}, {}, {})
    ]
    assert all(linked(gpu) == {n: 12 for n in range(8) if n != gpu.number} for gpu in topology.gpus)
    assert topology.nics == (TopoNic(column="mlx5_0", name="mlx5_0"),)


def test_eight_h100_with_two_ranges_of_processors():
    gpus = matrix("8x-h100-ht-no-nic.txt").gpus
    # GPU0 X NV18 … 0-51,104-155 0; GPU4 … 52-103,156-207 1
    assert [gpu.numa_node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [gpu.cpus for gpu in gpus] == ["0-51,104-155"] * 4 + ["52-103,156-207"] * 4
    assert all(linked(gpu) == {n: 18 for n in range(8) if n != gpu.number} for gpu in gpus)
    assert all(gpu.adapters == () for gpu in gpus)


def test_eight_h100_in_narrow_columns():
    gpus = matrix("8x-h100-no-nic.txt").gpus
    # GPU0   X    NV18  NV18 …   0-51         0; GPU4 … 52-103        1
    assert [gpu.numa_node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [gpu.cpus for gpu in gpus] == ["0-51"] * 4 + ["52-103"] * 4
    assert all(linked(gpu) == {n: 18 for n in range(8) if n != gpu.number} for gpu in gpus)


# What no recording holds.


def test_the_header_is_underlined_even_in_a_pipe():
    topology = read_topology(
        "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNODE\t28-55,84-111\t1\t\tN/A\n"
        "GPU1\tNODE\t X \t28-55,84-111\t1\t\tN/A\n"
    )
    assert [(gpu.number, gpu.numa_node) for gpu in topology.gpus] == [(0, 1), (1, 1)]


def test_a_cell_that_is_empty_between_tabs_moves_no_other():
    topology = read_topology(
        "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t1\tN/A\n"
    )
    assert (topology.gpus[0].cpus, topology.gpus[0].numa_node) == (None, 1)


def test_several_numa_nodes_are_not_one():
    topology = read_topology("     GPU0  CPU Affinity  NUMA Affinity\nGPU0  X   0-63   0-1\n")
    assert topology.gpus[0].numa_node is None
    assert topology.gpus[0].cpus == "0-63"


def test_a_row_that_is_cut_costs_what_it_lacks():
    topology = read_topology("     GPU0  GPU1  CPU Affinity  NUMA Affinity\nGPU0  X  NV4  0-6")
    (gpu,) = topology.gpus
    assert linked(gpu) == {1: 4}
    assert (gpu.cpus, gpu.numa_node) == (None, None)


def test_other_text_is_no_matrix():
    with pytest.raises(Unreadable, match="mismatch"):
        read_topology("Failed to initialize NVML: Driver/library version mismatch\n")
    with pytest.raises(Unreadable):
        read_topology("")
