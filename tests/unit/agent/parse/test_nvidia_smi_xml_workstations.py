"""The same of cards of workstations; every value typed from the text, its line beside it."""

from pathlib import Path

from llmgw.model.device import DeviceHealth, PciLink
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen
from llmgw_agent.parse.nvidia_smi_xml import read_report
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-q-x"
MIB = 1 << 20
IDLE = 0x1
"""<clocks_…_reason_gpu_idle>Active</…>, and no other reason."""


def report(name: str) -> CardsSeen:
    return read_report((FIXTURES / name).read_text())


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


def test_a_card_that_is_younger_than_its_driver_is_called_graphics_device():
    seen = report("gtx1660ti-graphics-device-418.xml")
    assert (seen.driver, seen.cuda) == ("418.43", "10.1")
    assert only(seen.cards) == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid="GPU-5bb7d39a-816c-327a-6574-5edcc0ca726f",
        name="Graphics Device",  # <product_name>Graphics Device</product_name>
        pci_address="00000000:43:00.0",  # <pci_bus_id>00000000:43:00.0</pci_bus_id>
        memory_total=5912 * MIB,  # <total>5912 MiB</total>
        memory_used=0,  # <used>0 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=1.0,  # <memory_util>1 %</memory_util>
        temperature=40.0,  # <gpu_temp>40 C</gpu_temp>
        power=8.93,  # <power_draw>8.93 W</power_draw>
        power_limit=130.0,  # <enforced_power_limit>130.00 W</enforced_power_limit>
        sm_clock=300.0,  # <sm_clock>300 MHz</sm_clock>
        fan=0.0,  # <fan_speed>0 %</fan_speed>
        mig=None,  # there is no <mig_mode>
        throttle_bits=IDLE,
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>3</max_link_gen> <current_link_width>16x</…> <max_link_width>16x</…>
        pci=PciLink(max_generation=3, lanes=16, max_lanes=16),
        processes=(),
    )


def test_a_report_between_two_forms_has_a_fabric_and_the_old_power():
    seen = report("quadro-p2000-525.xml")
    assert (seen.driver, seen.cuda) == ("525.125.06", "12.0")
    assert only(seen.cards) == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid="GPU-f8d35d85-83c0-4299-0517-28424c2c1e59",
        name="Quadro P2000",  # <product_name>Quadro P2000</product_name>
        pci_address="00000000:17:00.0",  # <pci_bus_id>00000000:17:00.0</pci_bus_id>
        memory_total=5120 * MIB,  # <total>5120 MiB</total>
        memory_used=1 * MIB,  # <used>1 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=34.0,  # <gpu_temp>34 C</gpu_temp>
        power=4.61,  # <power_readings> <power_draw>4.61 W</power_draw>
        power_limit=75.0,  # <enforced_power_limit>75.00 W</enforced_power_limit>
        sm_clock=139.0,  # <sm_clock>139 MHz</sm_clock>
        fan=46.0,  # <fan_speed>46 %</fan_speed>
        throttle_bits=IDLE,
        ecc_corrected=None,  # <single_bit> … <total>N/A</total>
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>3</…> <max_device_link_gen>3</…> <current_link_width>8x</…> of 16x
        pci=PciLink(max_generation=3, card_generation=3, lanes=8, max_lanes=16),
        slot_generation=3,  # <max_host_link_gen>3</max_host_link_gen>
        fabric=None,  # <fabric> <state>N/A</state> <status>N/A</status>
        processes=(),
    )


def test_a_card_that_is_newer_than_its_slot():
    card = only(report("rtx-pro-6000-maxq-590.xml").cards)
    uuid = "GPU-ac8bbec0-aada-202a-4c2b-64ea10fa84dd"
    assert card == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid=uuid,  # <uuid>GPU-ac8bbec0-aada-202a-4c2b-64ea10fa84dd</uuid>
        # <product_name>NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition</product_name>
        name="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        pci_address="00000000:61:00.0",  # <pci_bus_id>00000000:61:00.0</pci_bus_id>
        memory_total=97887 * MIB,  # <total>97887 MiB</total>
        memory_used=65720 * MIB,  # <used>65720 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=24.0,  # <gpu_temp>24 C</gpu_temp>
        power=3.97,  # <average_power_draw>3.97 W</average_power_draw>
        power_limit=300.0,  # <current_power_limit>300.00 W</current_power_limit>
        sm_clock=180.0,  # <sm_clock>180 MHz</sm_clock>
        fan=30.0,  # <fan_speed>30 %</fan_speed>
        throttle_bits=0,  # every <clocks_event_reason_…>Not Active</…>
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>4</…> <max_device_link_gen>5</…> <current_link_width>16x</…> of 16x
        pci=PciLink(max_generation=4, card_generation=5, lanes=16, max_lanes=16),
        slot_generation=4,  # <max_host_link_gen>4</max_host_link_gen>
        health=rows_of(uuid, recovery_action="none"),  # <gpu_recovery_action>None</…>
        processes=(
            CardProcess(
                pid=116860,  # <pid>116860</pid>
                name="/root/src/llama.cpp/build/bin/llama-server",
                memory_bytes=65710 * MIB,  # <used_memory>65710 MiB</used_memory>
                kind="C",  # <type>C</type>
            ),
        ),
    )


def test_the_power_moved_again_and_a_deprecated_question_has_no_answer():
    card = only(report("rtx3060-570.xml").cards)
    uuid = "GPU-4c7b0045-a7b3-eb0e-bcd1-3dbc2a95dbe6"
    assert card == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid=uuid,  # <uuid>GPU-4c7b0045-a7b3-eb0e-bcd1-3dbc2a95dbe6</uuid>
        name="NVIDIA GeForce RTX 3060",  # <product_name>NVIDIA GeForce RTX 3060</product_name>
        pci_address="00000000:2D:00.0",  # <pci_bus_id>00000000:2D:00.0</pci_bus_id>
        memory_total=12288 * MIB,  # <total>12288 MiB</total>
        memory_used=116 * MIB,  # <used>116 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=42.0,  # <gpu_temp>42 C</gpu_temp>
        power=11.6,  # <average_power_draw>11.60 W</average_power_draw>
        power_limit=170.0,  # <current_power_limit>170.00 W</current_power_limit>
        sm_clock=210.0,  # <sm_clock>210 MHz</sm_clock>
        fan=0.0,  # <fan_speed>0 %</fan_speed>
        throttle_bits=IDLE,
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>4</…> <max_device_link_gen>4</…> <current_link_width>16x</…> of 16x
        pci=PciLink(max_generation=4, card_generation=4, lanes=16, max_lanes=16),
        slot_generation=4,  # <max_host_link_gen>4</max_host_link_gen>
        fabric=None,  # <cliqueId>N/A</cliqueId> <clusterUuid>N/A</clusterUuid>
        # <remapped_rows>N/A</remapped_rows>; <reset_required>Requested functionality has been …
        health=DeviceHealth(uuid=uuid, recovery_action="none"),  # <gpu_recovery_action>None</…>
        processes=(),
    )


def test_a_laptops_card_tells_no_limit_and_has_half_the_lanes():
    card = only(report("rtx3060-laptop-515.xml").cards)
    assert card == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid="GPU-2880548e-d060-10f0-1504-7fcee1dd01f2",
        # <product_name>NVIDIA GeForce RTX 3060 Laptop GPU</product_name>
        name="NVIDIA GeForce RTX 3060 Laptop GPU",
        pci_address="00000000:01:00.0",  # <pci_bus_id>00000000:01:00.0</pci_bus_id>
        memory_total=6144 * MIB,  # <total>6144 MiB</total>
        memory_used=5 * MIB,  # <used>5 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=45.0,  # <gpu_temp>45 C</gpu_temp>
        power=8.7,  # <power_draw>8.70 W</power_draw>
        power_limit=None,  # <enforced_power_limit>N/A</enforced_power_limit>
        sm_clock=210.0,  # <sm_clock>210 MHz</sm_clock>
        fan=None,  # <fan_speed>N/A</fan_speed>
        throttle_bits=IDLE,
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>4</max_link_gen> <current_link_width>8x</…> <max_link_width>16x</…>
        pci=PciLink(max_generation=4, lanes=8, max_lanes=16),
        processes=(
            # <pid>28543</pid> <type>G</type> <process_name>/usr/libexec/Xorg</…> 4 MiB
            CardProcess(pid=28543, name="/usr/libexec/Xorg", memory_bytes=4 * MIB, kind="G"),
        ),
    )


def test_a_card_in_an_older_slot_counts_its_remapped_rows():
    card = only(report("rtx4090-535.xml").cards)
    uuid = "GPU-305aac82-a904-8f12-c81c-9107c7eeca66"
    assert card == Card(
        index=0,  # <attached_gpus>1</attached_gpus>
        uuid=uuid,  # <uuid>GPU-305aac82-a904-8f12-c81c-9107c7eeca66</uuid>
        name="NVIDIA GeForce RTX 4090",  # <product_name>NVIDIA GeForce RTX 4090</product_name>
        pci_address="00000000:84:00.0",  # <pci_bus_id>00000000:84:00.0</pci_bus_id>
        memory_total=24564 * MIB,  # <total>24564 MiB</total>
        memory_used=2 * MIB,  # <used>2 MiB</used>
        memory_of_its_own=True,
        busy=0.0,  # <gpu_util>0 %</gpu_util>
        bandwidth=0.0,  # <memory_util>0 %</memory_util>
        temperature=40.0,  # <gpu_temp>40 C</gpu_temp>
        power=26.84,  # <gpu_power_readings> <power_draw>26.84 W</power_draw>
        power_limit=450.0,  # <current_power_limit>450.00 W</current_power_limit>
        sm_clock=210.0,  # <sm_clock>210 MHz</sm_clock>
        fan=0.0,  # <fan_speed>0 %</fan_speed>
        mig=None,  # <current_mig>N/A</current_mig>
        throttle_bits=IDLE,
        pcie_replays=0,  # <replay_counter>0</replay_counter>
        # <max_link_gen>3</…> <max_device_link_gen>4</…> <current_link_width>16x</…> of 16x
        pci=PciLink(max_generation=3, card_generation=4, lanes=16, max_lanes=16),
        slot_generation=3,  # <max_host_link_gen>3</max_host_link_gen>
        health=rows_of(uuid, recovery_action="none"),  # <reset_required>No</reset_required>
        processes=(),
    )
