"""Reports of `nvidia-smi -q -x`, every value typed from the text; its line stands beside it."""

from pathlib import Path

from llmgw.model.device import DeviceHealth, PciLink
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen, Instance
from llmgw_agent.parse.nvidia_smi_xml import read_report
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-q-x"
MIB = 1 << 20
IDLE = 0x1
"""<clocks_…_reason_gpu_idle>Active</…>, and no other reason."""


def report(name: str) -> CardsSeen:
    return read_report((FIXTURES / name).read_text())


def a5000(**more: object) -> Card:
    """What both cards of the report have in common."""
    return Card(
        name="NVIDIA RTX A5000",  # <product_name>NVIDIA RTX A5000</product_name>
        memory_total=24564 * MIB,  # <total>24564 MiB</total>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        memory_temperature=None,  # <memory_temp>N/A</memory_temp>
        power_limit=230.0,  # <current_power_limit>230.00 W</current_power_limit>
        sm_clock=210.0,  # <sm_clock>210 MHz</sm_clock>
        fan=30.0,  # <fan_speed>30 %</fan_speed>
        mig=None,  # <current_mig>N/A</current_mig>
        throttle_bits=IDLE,
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        pci=PciLink(
            max_generation=4,  # <max_link_gen>4</max_link_gen>
            card_generation=4,  # <max_device_link_gen>4</max_device_link_gen>
            lanes=16,  # <current_link_width>16x</current_link_width>
            max_lanes=16,  # <max_link_width>16x</max_link_width>
        ),
        slot_generation=4,  # <max_host_link_gen>4</max_host_link_gen>
        **more,  # type: ignore[arg-type]
    )


def rows_of(uuid: str, **more: object) -> DeviceHealth:
    """A card that remapped nothing: corr 0, unc 0, pending No, failure No."""
    return DeviceHealth(
        uuid=uuid,
        remapped_corrected=0,  # <remapped_row_corr>0</remapped_row_corr>
        remapped_uncorrected=0,  # <remapped_row_unc>0</remapped_row_unc>
        remap_pending=False,  # <remapped_row_pending>No</remapped_row_pending>
        remap_failed=False,  # <remapped_row_failure>No</remapped_row_failure>
        **more,  # type: ignore[arg-type]
    )


def test_one_process_holds_memory_on_two_cards_and_the_power_is_the_seconds_average():
    seen = report("2x-a5000-590-llama-server.xml")
    llama = "/root/src/llama.cpp/build/bin/llama-server"
    first, second = (
        "GPU-ac8bbec0-aada-202a-4c2b-64ea10fa84dd",
        "GPU-244dfa70-34c3-cc66-6173-2305d152f804",
    )
    assert seen == CardsSeen(
        driver="590.44.01",  # <driver_version>590.44.01</driver_version>
        cuda="13.1",  # <cuda_version>13.1</cuda_version>
        cards=(
            a5000(
                index=0,  # <attached_gpus>2</attached_gpus>, and two are there
                uuid=first,  # <uuid>GPU-ac8bbec0-aada-202a-4c2b-64ea10fa84dd</uuid>
                pci_address="00000000:81:00.0",  # <pci_bus_id>00000000:81:00.0</pci_bus_id>
                memory_used=22437 * MIB,  # <used>22437 MiB</used>
                temperature=13.0,  # <gpu_temp>13 C</gpu_temp>
                power=6.41,  # <average_power_draw>6.41 W</average_power_draw>
                health=rows_of(first, recovery_action="none"),  # <gpu_recovery_action>None</…>
                processes=(
                    CardProcess(
                        pid=100477,  # <pid>100477</pid>
                        name=llama,  # <process_name>/root/src/llama.cpp/build/bin/llama-server
                        memory_bytes=22430 * MIB,  # <used_memory>22430 MiB</used_memory>
                        kind="C",  # <type>C</type>
                    ),
                ),
            ),
            a5000(
                index=1,
                uuid=second,  # <uuid>GPU-244dfa70-34c3-cc66-6173-2305d152f804</uuid>
                pci_address="00000000:C1:00.0",  # <pci_bus_id>00000000:C1:00.0</pci_bus_id>
                memory_used=17253 * MIB,  # <used>17253 MiB</used>
                temperature=15.0,  # <gpu_temp>15 C</gpu_temp>
                power=13.6,  # <average_power_draw>13.60 W</average_power_draw>
                health=rows_of(second, recovery_action="none"),
                processes=(
                    # <used_memory>17246 MiB</used_memory>
                    CardProcess(pid=100477, name=llama, memory_bytes=17246 * MIB, kind="C"),
                ),
            ),
        ),
    )


def test_a_card_in_mig_mode_has_its_instances_and_their_ids_but_no_names_of_profiles():
    seen = report("a100-80g-mig-4x1g20gb.xml")
    uuid = "GPU-690adda0-83a8-3d78-cc28-02a859b88a85"
    assert seen.driver == "535.54.03"  # <driver_version>535.54.03</driver_version>
    assert seen.cuda == "12.2"  # <cuda_version>12.2</cuda_version>
    assert only(seen.cards) == Card(
        index=None,  # <attached_gpus>4</attached_gpus>, and one is there: which, nobody knows
        uuid=uuid,  # <uuid>GPU-690adda0-83a8-3d78-cc28-02a859b88a85</uuid>
        name="NVIDIA A100-SXM4-80GB",  # <product_name>NVIDIA A100-SXM4-80GB</product_name>
        pci_address="00000000:01:00.0",  # <pci_bus_id>00000000:01:00.0</pci_bus_id>
        memory_total=81920 * MIB,  # <total>81920 MiB</total>
        memory_used=50 * MIB,  # <used>50 MiB</used>
        memory_of_its_own=True,
        busy=None,  # <gpu_util>N/A</gpu_util>
        bandwidth=None,  # <memory_util>N/A</memory_util>
        temperature=27.0,  # <gpu_temp>27 C</gpu_temp>
        memory_temperature=44.0,  # <memory_temp>44 C</memory_temp>
        power=67.03,  # <gpu_power_readings> <power_draw>67.03 W</power_draw>
        power_limit=500.0,  # <current_power_limit>500.00 W</current_power_limit>
        sm_clock=1275.0,  # <sm_clock>1275 MHz</sm_clock>
        fan=None,  # <fan_speed>N/A</fan_speed>
        mig=True,  # <current_mig>Enabled</current_mig>
        instances=tuple(
            Instance(
                index=index,  # <index>0</index> to <index>3</index>
                gpu_instance=index + 3,  # <gpu_instance_id>3</…> to <gpu_instance_id>6</…>
                compute_instance=0,  # <compute_instance_id>0</compute_instance_id>
                multiprocessors=14,  # <multiprocessor_count>14</multiprocessor_count>
                memory_total=19968 * MIB,  # <total>19968 MiB</total>
                memory_used=12 * MIB,  # <used>12 MiB</used>
                processes=(),  # <processes />
            )
            for index in range(4)
        ),
        throttle_bits=0,  # every <clocks_event_reason_…>Not Active</…>
        ecc_corrected=0,  # <volatile> <sram_correctable>0</…> <dram_correctable>0</…>
        ecc_uncorrected=0,  # <volatile> <sram_uncorrectable>0</…> <dram_uncorrectable>0</…>
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>4</…> <max_device_link_gen>4</…> <current_link_width>16x</…> of 16x
        pci=PciLink(max_generation=4, card_generation=4, lanes=16, max_lanes=16),
        slot_generation=4,  # <max_host_link_gen>4</max_host_link_gen>
        fabric=None,  # <fabric> <state>N/A</state> <status>N/A</status>
        health=DeviceHealth(
            uuid=uuid,
            ecc_corrected_volatile=0,
            ecc_uncorrected_volatile=0,
            ecc_corrected_aggregate=0,  # <aggregate> <sram_correctable>0</…> <dram_…>0</…>
            ecc_uncorrected_aggregate=0,
            # <remapped_rows>N/A</remapped_rows>, <retired_count>N/A</retired_count>
            recovery_action="none",  # <reset_required>No</…> <drain_and_reset_recommended>No</…>
        ),
        processes=(),  # <processes />
    )


def test_a_cloud_card_with_half_its_lanes_and_a_desktop_on_it():
    seen = report("a10g-515.xml")
    uuid = "GPU-6050aebe-d366-55dd-b371-b2bd51e6aa1d"
    assert (seen.driver, seen.cuda) == ("515.105.01", "11.7")
    assert only(seen.cards) == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid=uuid,  # <uuid>GPU-6050aebe-d366-55dd-b371-b2bd51e6aa1d</uuid>
        name="NVIDIA A10G",  # <product_name>NVIDIA A10G</product_name>
        pci_address="00000000:00:1E.0",  # <pci_bus_id>00000000:00:1E.0</pci_bus_id>
        memory_total=23028 * MIB,  # <total>23028 MiB</total>
        memory_used=22 * MIB,  # <used>22 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=17.0,  # <gpu_temp>17 C</gpu_temp>
        memory_temperature=None,  # <memory_temp>N/A</memory_temp>
        power=25.58,  # <power_readings> <power_draw>25.58 W</power_draw>
        power_limit=300.0,  # <enforced_power_limit>300.00 W</enforced_power_limit>
        sm_clock=210.0,  # <sm_clock>210 MHz</sm_clock>
        fan=0.0,  # <fan_speed>0 %</fan_speed>
        throttle_bits=IDLE,
        ecc_corrected=0,  # <sram_correctable>0</…> <dram_correctable>0</…>
        ecc_uncorrected=0,  # <sram_uncorrectable>0</…> <dram_uncorrectable>0</…>
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>4</max_link_gen>, no device's own; <current_link_width>8x</…> of 16x
        pci=PciLink(max_generation=4, lanes=8, max_lanes=16),
        health=rows_of(
            uuid,
            ecc_corrected_volatile=0,
            ecc_uncorrected_volatile=0,
            ecc_corrected_aggregate=0,
            ecc_uncorrected_aggregate=0,
        ),
        processes=(
            # <pid>725</pid> <type>G</type> <process_name>/usr/lib/xorg/Xorg</…> 22 MiB
            CardProcess(pid=725, name="/usr/lib/xorg/Xorg", memory_bytes=22 * MIB, kind="G"),
        ),
    )


def test_the_guest_of_a_virtual_gpu_measures_no_heat_no_power_and_no_link():
    card = only(report("grid-p4-1q-vgpu-513.xml").cards)
    pids = (1188, 2124, 3696, 3972, 7208, 7284, 7880, 8788, 9468, 9804, 11528, 12804)
    assert card == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid="GPU-9eebac61-77df-dbb4-9134-b8da5fb206a6",
        name="GRID P4-1Q",  # <product_name>GRID P4-1Q</product_name>
        pci_address="00000000:00:0B.0",  # <pci_bus_id>00000000:00:0B.0</pci_bus_id>
        memory_total=1024 * MIB,  # <total>1024 MiB</total>
        memory_used=807 * MIB,  # <used>807 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=None,  # <gpu_temp>0 C</gpu_temp>: nobody measured that
        power=None,  # <power_draw>N/A</power_draw>
        power_limit=None,  # <enforced_power_limit>N/A</enforced_power_limit>
        sm_clock=None,  # <sm_clock>0 MHz</sm_clock>: nor that
        fan=None,  # <fan_speed>N/A</fan_speed>
        throttle_bits=None,  # <clocks_throttle_reasons>N/A</clocks_throttle_reasons>
        ecc_uncorrected=None,  # <total>N/A</total>
        pcie_replays=None,  # <replay_counter>N/A</replay_counter>
        pci=None,  # <max_link_gen>N/A</…> <current_link_width>N/A</current_link_width>
        health=None,
        processes=(
            # <type>C+G</type> <process_name></process_name> <used_memory>N/A</used_memory>
            *(CardProcess(pid=pid, kind="C+G") for pid in pids),
            # <process_name>C:\Windows\explorer.exe</process_name>
            CardProcess(pid=15104, kind="C+G", name=r"C:\Windows\explorer.exe"),
        ),
    )


def test_a_report_without_a_header_is_of_a_card_that_knows_no_mig_and_no_ecc():
    seen = report("gtx1070ti-no-header.xml")
    assert (seen.driver, seen.cuda) == (None, None)
    assert only(seen.cards) == Card(
        index=None,  # there is no <attached_gpus>
        uuid="GPU-3b73035a-2adc-efdd-7531-7b28c523131c",
        name="GeForce GTX 1070 Ti",  # <product_name>GeForce GTX 1070 Ti</product_name>
        pci_address="00000000:01:00.0",  # <gpu id="00000000:01:00.0">
        memory_total=4096 * MIB,  # <total>4096 MiB</total>
        memory_used=42 * MIB,  # <used>42 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=39.0,  # <gpu_temp>39 C</gpu_temp>
        power=None,  # <power_draw>N/A</power_draw>
        sm_clock=135.0,  # <sm_clock>135 MHz</sm_clock>
        fan=100.0,  # <fan_speed>100 %</fan_speed>
        pci=PciLink(lanes=16),  # <current_link_width>16x</current_link_width>
        processes=None,  # there is no <processes>
    )


def test_a_strangers_python_and_a_desktop_on_a_card_that_retires_pages():
    seen = report("t4-515.xml")
    uuid = "GPU-3f9fbca7-d3ff-c4d4-52a7-8e1d6ee28fdb"
    assert (seen.driver, seen.cuda) == ("515.105.01", "11.7")
    assert only(seen.cards) == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid=uuid,  # <uuid>GPU-3f9fbca7-d3ff-c4d4-52a7-8e1d6ee28fdb</uuid>
        name="Tesla T4",  # <product_name>Tesla T4</product_name>
        pci_address="00000000:00:1E.0",  # <pci_bus_id>00000000:00:1E.0</pci_bus_id>
        memory_total=15360 * MIB,  # <total>15360 MiB</total>
        memory_used=1032 * MIB,  # <used>1032 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=40.0,  # <gpu_temp>40 C</gpu_temp>
        power=26.78,  # <power_draw>26.78 W</power_draw>
        power_limit=70.0,  # <enforced_power_limit>70.00 W</enforced_power_limit>
        sm_clock=585.0,  # <sm_clock>585 MHz</sm_clock>
        fan=None,  # <fan_speed>N/A</fan_speed>
        throttle_bits=0,  # every <clocks_throttle_reason_…>Not Active</…>
        ecc_corrected=0,  # <sram_correctable>0</…> <dram_correctable>0</…>
        ecc_uncorrected=0,  # <sram_uncorrectable>0</…> <dram_uncorrectable>0</…>
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>3</max_link_gen> <current_link_width>8x</…> <max_link_width>16x</…>
        pci=PciLink(max_generation=3, lanes=8, max_lanes=16),
        health=DeviceHealth(
            uuid=uuid,
            ecc_corrected_volatile=0,
            ecc_uncorrected_volatile=0,
            ecc_corrected_aggregate=0,
            ecc_uncorrected_aggregate=0,
            retired_corrected=0,  # <multiple_single_bit_retirement> <retired_count>0</…>
            retired_uncorrected=0,  # <double_bit_retirement> <retired_count>0</…>
            retire_pending=False,  # <pending_retirement>No</pending_retirement>
        ),
        processes=(
            # <pid>675</pid> <type>G</type> <process_name>/usr/lib/xorg/Xorg</…> 22 MiB
            CardProcess(pid=675, name="/usr/lib/xorg/Xorg", memory_bytes=22 * MIB, kind="G"),
            # <pid>5762</pid> <type>C</type> <process_name>python</…> 1005 MiB
            CardProcess(pid=5762, name="python", memory_bytes=1005 * MIB, kind="C"),
        ),
    )
