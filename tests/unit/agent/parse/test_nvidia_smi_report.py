"""`nvidia-smi -q`: each recorded report as a person reads it; the lines are quoted beside."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw.model.device import NvlinkFabric, PciLink
from llmgw_agent.parse.gpu_report import (
    CardClocks,
    CardHeat,
    CardMemory,
    CardPower,
    GpuReport,
    MemoryErrors,
    RemappedRows,
    ReportProcess,
    RetiredPages,
)
from llmgw_agent.parse.nvidia_smi_fabric import FabricReading, is_cluster, read_fabrics
from llmgw_agent.parse.nvidia_smi_report import read_report
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures"
MIB = 1 << 20


def report(name: str) -> str:
    return (FIXTURES / "nvidia-smi-q" / name).read_text()


def fabric(name: str) -> str:
    return (FIXTURES / "nvidia-smi-fabric" / name).read_text()


def card(*lines: str) -> GpuReport:
    """Read lines of one card's section, as a driver prints them."""
    return only(read_report("\n".join(("GPU 00000000:01:00.0", *lines))).gpus)


def test_an_a10_with_a_row_that_waits_to_be_remapped():
    read = read_report(report("1x-a10-535-remap-pending.txt"))
    assert read.driver == "535.129.03"  # Driver Version : 535.129.03
    assert read.cuda == "12.2"  # CUDA Version : 12.2
    assert read.attached == 1  # Attached GPUs : 1
    gpu = only(read.gpus)
    assert gpu.pci_address == "00000000:07:00.0"  # GPU 00000000:07:00.0
    assert gpu.uuid == "GPU-32ea4b4e-fc38-17f1-383e-715e8de044b8"  # GPU UUID : GPU-32ea4b4e-…
    assert gpu.name == "NVIDIA A10"  # Product Name : NVIDIA A10
    assert gpu.addressing_mode == "None"  # Addressing Mode : None
    assert gpu.mig is None  # MIG Mode / Current : N/A
    # Remapped Rows / Correctable Error : 0 / Uncorrectable Error : 4 / Pending : Yes /
    # Remapping Failure Occurred : No
    assert gpu.remapped == RemappedRows(corrected=0, uncorrected=4, pending=True, failed=False)
    assert gpu.retired is None  # Single Bit ECC : N/A, Double Bit ECC : N/A, Pending … : N/A
    # FB Memory Usage / Total : 23028 MiB / Reserved : 512 MiB / Used : 4 MiB / Free : 22511 MiB
    assert gpu.memory == CardMemory(
        total=23028 * MIB, reserved=512 * MIB, used=4 * MIB, free=22511 * MIB
    )
    # GPU Current Temp : 33 C / GPU T.Limit Temp : N/A / GPU Shutdown Temp : 101 C /
    # GPU Slowdown Temp : 98 C / GPU Max Operating Temp : 91 C / Memory Current Temp : N/A
    assert gpu.heat == CardHeat(gpu=33, shutdown=101, slowdown=98, most_operating=91)
    # Power Draw : 43.89 W / Current Power Limit : 150.00 W / Requested … : 150.00 W /
    # Default … : 150.00 W / Min Power Limit : 100.00 W / Max Power Limit : 150.00 W
    assert gpu.power == CardPower(
        draw=43.89,
        limit=150,
        requested_limit=150,
        default_limit=150,
        least_limit=100,
        most_limit=150,
    )
    assert gpu.recovery_action == "none"  # Reset Required : No
    assert gpu.fan_percent == 0  # Fan Speed : 0 %
    assert gpu.fabric is None  # Fabric / State : N/A, Status : N/A
    assert gpu.processes == ()  # Processes : None
    assert gpu.whole


def test_a_healthy_a10():
    read = read_report(report("1x-a10-550.txt"))
    assert (read.driver, read.attached) == ("550.127.05", 1)
    gpu = only(read.gpus)
    assert gpu.uuid == "GPU-0588b217-abd6-d96a-9086-22aa59e48ce3"
    # Idle : Active; every other one, HW Slowdown and its two parts too : Not Active
    assert gpu.throttle_reasons == ("idle",)
    assert (gpu.busy_percent, gpu.memory_bandwidth_percent) == (0, 0)  # Gpu : 0 %, Memory : 0 %
    assert gpu.memory is not None
    assert gpu.memory.used == 1 * MIB  # Used : 1 MiB
    assert gpu.power is not None
    assert gpu.power.draw == 21.3  # GPU Power Readings / Power Draw : 21.30 W
    # Correctable Error : 0, Uncorrectable Error : 0, Pending : No, … Failure Occurred : No
    assert gpu.remapped == RemappedRows(corrected=0, uncorrected=0, pending=False, failed=False)
    assert gpu.ecc is True  # ECC Mode / Current : Enabled
    assert gpu.errors == MemoryErrors(  # every SRAM and DRAM line : 0
        corrected_volatile=0,
        uncorrected_volatile=0,
        corrected_aggregate=0,
        uncorrected_aggregate=0,
        threshold_exceeded=False,  # SRAM Threshold Exceeded : No
    )
    # Graphics : 210 MHz / SM : 210 MHz / Memory : 405 MHz / Video : 555 MHz
    assert gpu.clocks == CardClocks(graphics=210, sm=210, memory=405, video=555)
    # Max Clocks: 1695, 1695, 6251, 1575 MHz
    assert gpu.most_clocks == CardClocks(graphics=1695, sm=1695, memory=6251, video=1575)


def test_a_gh200_whose_power_is_the_gpus_and_not_the_modules():
    gpu = only(read_report(report("1x-gh200-550.txt")).gpus)
    assert gpu.name == "NVIDIA GH200 480GB"
    assert gpu.addressing_mode == "ATS"  # Addressing Mode : ATS
    assert gpu.mig is False  # MIG Mode / Current : Disabled
    assert gpu.memory is not None
    assert gpu.memory.total == 97871 * MIB  # Total : 97871 MiB (BAR1's says N/A)
    assert gpu.memory.used == 2 * MIB  # Used : 2 MiB
    # GPU Current Temp : 31 C / GPU T.Limit Temp : 55 C / Memory Current Temp : 39 C
    assert gpu.heat == CardHeat(gpu=31, memory=39, to_limit=55)
    # GPU Power Readings: Power Draw : 87.88 W (GPU Memory's 18.51 W, Module's 169.77 W)
    # Current Power Limit : 700.00 W, Requested and Default : 900.00 W
    assert gpu.power == CardPower(
        draw=87.88,
        limit=700,
        requested_limit=900,
        default_limit=900,
        least_limit=100,
        most_limit=900,
    )
    assert gpu.errors == MemoryErrors(
        corrected_volatile=0,
        uncorrected_volatile=0,
        corrected_aggregate=0,
        uncorrected_aggregate=1,  # Aggregate / DRAM Uncorrectable : 1
        threshold_exceeded=False,
    )
    # Correctable Error : 0 / Uncorrectable Error : 1 / Pending : No / … Failure Occurred : No
    assert gpu.remapped == RemappedRows(corrected=0, uncorrected=1, pending=False, failed=False)
    # PCIe Generation / Max : 4, Device Max : 4; Link Width / Max : 1x, Current : 1x
    assert gpu.pci == PciLink(max_generation=4, card_generation=4, lanes=1, max_lanes=1)
    assert gpu.fabric is None  # State, Status, CliqueId, ClusterUUID, Bandwidth : N/A
    assert gpu.fan_percent is None  # Fan Speed : N/A


def test_a_titan_v_without_ecc_and_row_remapping():
    gpu = only(read_report(report("1x-titanv-560.txt")).gpus)
    assert gpu.ecc is None  # ECC Mode / Current : N/A
    assert gpu.errors is None  # Single Bit, Double Bit / Total : N/A
    assert gpu.remapped is None  # Remapped Rows : N/A
    assert gpu.retired is None
    assert gpu.heat is not None
    assert (gpu.heat.gpu, gpu.heat.memory) == (44, 41)  # … Current Temp : 44 C and 41 C
    assert gpu.fan_percent == 30  # Fan Speed : 30 %
    # Process ID : 100607 / Type : G / Name : /usr/lib/xorg/Xorg / Used GPU Memory : 142 MiB …
    assert gpu.processes == (
        ReportProcess(pid=100607, kind="G", name="/usr/lib/xorg/Xorg", memory_bytes=142 * MIB),
        ReportProcess(pid=100838, kind="G", name="/usr/bin/gnome-shell", memory_bytes=33 * MIB),
        ReportProcess(pid=101815, kind="G", name="/opt/test", memory_bytes=111 * MIB),
    )


def test_eight_h100_that_the_power_brake_holds_back():
    read = read_report(report("8x-h100-535-hw-slowdown.txt"))
    assert (read.driver, read.attached, len(read.gpus)) == ("535.161.08", 8, 8)
    assert [gpu.pci_address for gpu in read.gpus] == [
        *("00000000:19:00.0", "00000000:3B:00.0", "00000000:4C:00.0", "00000000:5D:00.0"),
        *("00000000:9B:00.0", "00000000:BB:00.0", "00000000:CB:00.0", "00000000:DB:00.0"),
    ]
    assert read.gpus[0].uuid == "GPU-b58d40dc-98d0-36a7-234c-2a26485ac4b0"
    assert read.gpus[7].uuid == "GPU-23efd3c0-3873-9a87-c2a5-eac6df0d0c9a"
    # GPU Current Temp : 29 C, 29 C, 30 C, 30 C, 31 C, 32 C, 32 C, 31 C
    heat = [None if gpu.heat is None else gpu.heat.gpu for gpu in read.gpus]
    assert heat == [29, 29, 30, 30, 31, 32, 32, 31]
    # Replays Since Reset : 67, 63, 52, 43, 49, 53, 82, 67
    assert [gpu.pcie_replays for gpu in read.gpus] == [67, 63, 52, 43, 49, 53, 82, 67]
    for gpu in read.gpus:
        assert gpu.name == "NVIDIA H100 80GB HBM3"
        # HW Slowdown : Active, HW Thermal Slowdown : Not Active, HW Power Brake … : Active
        assert gpu.throttle_reasons == ("hardware slowdown", "power brake")
        # Fabric / State : Completed / Status : Success, and no more lines with this driver
        assert gpu.fabric == NvlinkFabric(state="Completed", status="Success")
        assert gpu.ecc is True  # ECC Mode / Current : Enabled
        assert gpu.mig is False  # MIG Mode / Current : Disabled
        assert gpu.processes == ()  # Processes : None
        assert gpu.memory is not None
        assert gpu.memory.used == 0  # Used : 0 MiB, which is said
        # Max : 5, Device Max : 5, Link Width 16x and 16x
        assert gpu.pci == PciLink(max_generation=5, card_generation=5, lanes=16, max_lanes=16)
        assert gpu.whole


def test_a_report_that_ends_in_the_first_card_tells_of_that_part_alone():
    read = read_report(report("8x-h100-535-truncated.txt"))
    assert read.attached == 8  # Attached GPUs : 8
    gpu = only(read.gpus)
    assert not gpu.whole  # ends after "Display Clock Setting : Not Active"
    assert gpu.uuid == "GPU-42f98179-374a-ca4c-078c-f2749439c96d"
    assert gpu.pcie_replays == 120  # Replays Since Reset : 120
    # Idle : Active; "Invalid HW Slowdown" is no name of a reason
    assert gpu.throttle_reasons == ("idle",)
    absent = (gpu.memory, gpu.errors, gpu.ecc, gpu.heat, gpu.power, gpu.remapped, gpu.retired)
    assert absent == (None,) * 7
    assert (gpu.busy_percent, gpu.clocks, gpu.fabric, gpu.processes) == (None,) * 4


def test_an_unknown_error_in_a_value_is_that_values_alone():
    read = read_report(report("8x-rtx4090-535-unknown-error.txt"))
    assert (read.attached, len(read.gpus)) == (8, 8)
    # Fan Speed : 100 %, 70 %, 100 %, 68 %, 69 %, 70 %, 71 %, 69 %
    assert [gpu.fan_percent for gpu in read.gpus] == [100, 70, 100, 68, 69, 70, 71, 69]
    for gpu in read.gpus:
        assert gpu.addressing_mode is None  # Addressing Mode : Unknown Error
        assert gpu.throttle_reasons == ("idle",)  # Idle : Active
        assert gpu.ecc is False  # ECC Mode / Current : Disabled
        assert gpu.errors is None  # all N/A
        assert gpu.heat is not None
        assert gpu.heat.memory is None  # Memory Current Temp : N/A
        assert gpu.whole
    # Process ID : 2180559, 2163744, 2177496; Type : C; Name : /opt/conda/bin/python
    # Used GPU Memory : 22072 MiB, 22198 MiB, 19884 MiB
    found = [(p.pid, p.kind, p.memory_bytes) for gpu in read.gpus for p in gpu.processes or ()]
    assert found == [
        (2180559, "C", 22072 * MIB),
        (2163744, "C", 22198 * MIB),
        (2177496, "C", 19884 * MIB),
    ]


def test_an_excerpt_of_one_cards_errors():
    gpu = only(read_report(report("a100-sram-uncorrectable-excerpt.txt")).gpus)
    assert gpu.errors == MemoryErrors(
        corrected_volatile=0,
        uncorrected_volatile=1,  # Volatile / SRAM Uncorrectable : 1
        corrected_aggregate=0,
        uncorrected_aggregate=5,  # Aggregate / SRAM Uncorrectable : 5
    )
    assert (gpu.uuid, gpu.pci_address, gpu.whole) == (None, None, False)


def test_a_gb10_has_no_memory_of_its_own_rather_than_none_at_all():
    gpu = only(read_report(report("gb10-fb-section.txt")).gpus)
    assert gpu.memory is None  # Total : N/A, Used : N/A, Free : N/A


# The Fabric section by itself.


def test_a_gb200_in_a_domain():
    reading = only(read_fabrics(fabric("gb200-health-healthy.txt")))
    assert reading == FabricReading(
        gpu="00000000:01:00.0",  # GPU 00000000:01:00.0
        fabric=NvlinkFabric(
            state="Completed",  # State : Completed
            status="Success",  # Status : Success
            cluster_uuid="b2daed23-0000-0000-0000-000000000000",  # ClusterUUID : b2daed23-0000-…
            clique_id=1,  # CliqueId : 1
            bandwidth="Full",  # Health / Bandwidth : Full
            health="Healthy",  # Health / Summary : Healthy
        ),
    )
    # The whole report reads the same section.
    assert only(read_report(fabric("gb200-health-healthy.txt")).gpus).fabric == reading.fabric
    assert is_cluster("b2daed23-0000-0000-0000-000000000000")


def test_a_cluster_of_zeros_is_kept_and_is_no_cluster():
    reading = only(read_fabrics(fabric("h200-success-zero-uuid.txt")))
    # State : Completed / Status : Success / CliqueId : 0 / ClusterUUID : 00000000-… / N/A
    assert reading.fabric == NvlinkFabric(
        state="Completed",
        status="Success",
        clique_id=0,
        cluster_uuid="00000000-0000-0000-0000-000000000000",
    )
    assert not is_cluster(reading.fabric.cluster_uuid)
    assert only(read_report(fabric("h200-success-zero-uuid.txt")).gpus).processes == ()


def test_gpuds_table_of_a_card_that_is_in_no_fabric():
    # | State | Not Supported | … | Status | Success | … | Clique ID | 0 |
    assert only(read_fabrics(fabric("nvml-gb200-table.txt"))) == FabricReading(
        gpu="GPU-1182579c-5a69-8e8e-cb7a-e6e0b65d47c7",
        fabric=NvlinkFabric(state="Not Supported", status="Success", clique_id=0),
    )


def test_lines_of_several_nodes_with_cliques_above_two_to_the_31():
    readings = read_fabrics(fabric("pdsh-clique-lines.txt"))
    # node-10:         CliqueId                          : 4000000004
    # node-10:         ClusterUUID                       : 50000000-0000-0000-0000-000000000005
    ten = NvlinkFabric(clique_id=4000000004, cluster_uuid="50000000-0000-0000-0000-000000000005")
    # node-07, node-08: 4000000005 and 50000000-0000-0000-0000-000000000004
    other = NvlinkFabric(clique_id=4000000005, cluster_uuid="50000000-0000-0000-0000-000000000004")
    assert [(one.node, one.fabric) for one in readings] == [
        ("node-10", ten),
        ("node-10", ten),
        ("node-07", other),
        ("node-07", other),
        ("node-08", other),
    ]


def test_a_workstation_card_has_no_fabric_and_one_process():
    assert only(read_fabrics(fabric("rtx-health-na.txt"))).fabric is None  # every line : N/A
    gpu = only(read_report(fabric("rtx-health-na.txt")).gpus)
    assert gpu.fabric is None
    # Process ID : 2023 / Type : G / Name : /usr/bin/gnome-shell / Used GPU Memory : 1 MiB
    assert gpu.processes == (
        ReportProcess(pid=2023, kind="G", name="/usr/bin/gnome-shell", memory_bytes=1 * MIB),
    )


# What no recording holds: names that newer and older drivers use.


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("None", "none"),
        ("Reset", "reset"),
        ("Reboot", "reboot"),
        ("Drain P2P", "drain"),
        ("Drain and Reset", "drain"),
        ("N/A", None),
        ("Something new", None),
    ],
)
def test_the_recovery_action_of_newer_drivers(words: str, action: str | None):
    assert card(f"    GPU Recovery Action                   : {words}").recovery_action == action


@pytest.mark.parametrize(
    ("reset", "drain", "action"),
    [
        ("No", "No", "none"),
        ("Yes", "No", "reset"),
        ("No", "Yes", "drain"),
        ("No", "N/A", "none"),
        ("Requested functionality has been deprecated",) * 2 + (None,),
    ],
)
def test_the_two_questions_of_older_drivers(reset: str, drain: str, action: str | None):
    gpu = card(
        "    GPU Reset Status",
        f"        Reset Required                    : {reset}",
        f"        Drain and Reset Recommended       : {drain}",
    )
    assert gpu.recovery_action == action


def test_power_of_570_and_later_and_of_525_and_earlier():
    newer = card(
        "    GPU Power Readings",
        "        Average Power Draw                             : N/A",
        "        Instantaneous Power Draw                       : 24.07 W",
        "        Current Power Limit                            : 250.00 W",
        "    GPU Memory Power Readings ",
        "        Average Power Draw                             : 3.00 W",
    )
    assert newer.power == CardPower(draw=24.07, limit=250)
    older = card(
        "    Power Readings",
        "        Power Management                  : Supported",
        "        Power Draw                        : 61.52 W",
        "        Power Limit                       : 400.00 W",
        "        Enforced Power Limit              : 350.00 W",
    )
    assert older.power == CardPower(draw=61.52, limit=350)


def test_throttle_reasons_under_their_older_name():
    gpu = card(
        "    Clocks Throttle Reasons",
        "        Idle                              : Not Active",
        "        SW Power Cap                      : Active",
        "        HW Slowdown                       : Active",
        "            HW Thermal Slowdown           : Active",
    )
    assert gpu.throttle_reasons == ("power cap", "hardware slowdown", "heat (hardware)")
    assert card("    Clocks Throttle Reasons : N/A").throttle_reasons is None


def test_errors_and_retired_pages_of_cards_before_turing():
    gpu = card(
        "    ECC Errors",
        "        Volatile",
        "            Single Bit            ",
        "                Device Memory             : 2",
        "                Texture Memory            : N/A",
        "                Total                     : 3",
        "            Double Bit            ",
        "                Device Memory             : 0",
        "                Total                     : 0",
        "        Aggregate",
        "            Single Bit            ",
        "                Total                     : 12",
        "            Double Bit            ",
        "                Device Memory             : 1",
        "                Total                     : N/A",
        "    Retired Pages",
        "        Single Bit ECC                    : 4",
        "        Double Bit ECC                    : 2",
        "        Pending Page Blacklist            : Yes",
    )
    assert gpu.errors == MemoryErrors(
        corrected_volatile=3,
        uncorrected_volatile=0,
        corrected_aggregate=12,
    )
    assert gpu.retired == RetiredPages(corrected=4, uncorrected=2, pending=True)


def test_uncorrected_errors_of_on_chip_memory_come_in_two_kinds_of_newer_drivers():
    gpu = card(
        "    ECC Errors",
        "        Volatile",
        "            SRAM Uncorrectable Parity     : 2",
        "            SRAM Uncorrectable SEC-DED    : 1",
        "            DRAM Uncorrectable            : 4",
    )
    assert gpu.errors == MemoryErrors(uncorrected_volatile=7)


def test_a_sum_of_which_a_part_is_not_told_is_not_known():
    gpu = card(
        "    ECC Errors",
        "        Volatile",
        "            SRAM Correctable              : N/A",
        "            DRAM Correctable              : 0",
        "            DRAM Uncorrectable            : 3",
    )
    assert gpu.errors == MemoryErrors(uncorrected_volatile=3)


def test_processes_of_mig_instances_name_their_instance():
    gpu = card(
        "    Processes",
        "        GPU instance ID                   : 3",
        "        Compute instance ID               : 0",
        "        Process ID                        : 71",
        "            Type                          : C",
        "            Name                          : python : odd",
        "            Used GPU Memory               : N/A",
        "        GPU instance ID                   : 4",
        "        Compute instance ID               : 1",
        "        Process ID                        : N/A",
        "        GPU instance ID                   : 5",
        "        Compute instance ID               : 2",
        "        Process ID                        : 72",
    )
    assert gpu.processes == (
        ReportProcess(pid=71, kind="C", name="python : odd", gpu_instance=3, compute_instance=0),
        ReportProcess(pid=72, gpu_instance=5, compute_instance=2),
    )


def test_a_number_whose_line_is_cut_is_not_believed():
    gpu = card("    FB Memory Usage", "        Total    : 815", "        Used    : 12 Mi")
    assert gpu.memory is None
    assert card("    Temperature", "        GPU Current Temp   : 3").heat is None


def test_words_of_a_failing_tool_are_no_report():
    text = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n"
    )
    with pytest.raises(Unreadable, match="couldn't communicate"):
        read_report(text)
    with pytest.raises(Unreadable, match="couldn't communicate"):
        read_fabrics(text)
    with pytest.raises(Unreadable):
        read_report("")


def test_a_header_without_a_card_is_a_report_of_none():
    read = read_report("Driver Version : 550.1\nCUDA Version : 12.4\nAttached GPUs : 0\n")
    assert (read.driver, read.attached, read.gpus) == ("550.1", 0, ())
