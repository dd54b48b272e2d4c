"""How devices, ports and probes are, in words: what is wrong stands first, the unknown nowhere."""

import itertools

import pytest

from llmgw.base.units import show_seconds
from llmgw.fabric import nvlink
from llmgw.model.condition import (
    device_facts,
    fabric_facts,
    names_of,
    port_faults,
    port_network,
    with_cards,
)
from llmgw.model.device import (
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    NvlinkFabric,
    PciLink,
    Xid,
)
from llmgw.model.fabric import NvlinkDomain, Port, PortCounter

NOW = 1_800_000_000.0
ZEROS = "00000000-0000-0000-0000-000000000000"
CLUSTER = "1a2b3c4d-0000-4000-8000-000000000001"


def facts(
    device: Device | None = None,
    health: DeviceHealth | None = None,
    reading: DeviceSample | None = None,
    domain: NvlinkDomain | None = None,
) -> list[tuple[str, bool]]:
    made = device_facts(
        device or Device(uuid="g", number=0), health, reading, domain, now=NOW, ages=show_seconds
    )
    return [(fact.words, fact.wrong) for fact in made]


def test_a_device_of_which_nothing_is_known_has_no_facts() -> None:
    assert facts() == []
    assert facts(health=DeviceHealth(uuid="g")) == []


def test_what_is_wrong_stands_before_what_is_calm() -> None:
    device = Device(uuid="g", unhealthy=("fell off the bus",), pci=PciLink(lanes=16, max_lanes=16))
    health = DeviceHealth(uuid="g", ecc_uncorrected_volatile=0, nvlinks=18, nvlinks_down=2)
    assert facts(device, health) == [
        ("fell off the bus", True),
        ("2 of 18 NVLinks down", True),
        ("no ECC errors", False),
        ("PCIe 16 of 16 lanes", False),
    ]


@pytest.mark.parametrize(
    ("xid", "words", "wrong"),
    [
        (
            Xid(code=79, count=2, last_seen=NOW - 840, action="reboot", words="fell off the bus"),
            "XID 79 2 times, last 14m00s ago: fell off the bus; reboot the machine",
            True,
        ),
        (Xid(code=43, count=1, action="ignore"), "XID 43 once; nothing to do", False),
        (
            Xid(code=48, count=1, last_seen=NOW + 5, action="reset", cleared=True),
            "XID 48 once, last 0ms ago; cleared",
            False,
        ),
        (Xid(code=999, count=3, cleared=False), "XID 999 3 times", True),
    ],
)
def test_an_xid_says_what_it_asks_for_until_it_is_cleared(
    xid: Xid, words: str, wrong: bool
) -> None:
    assert facts(health=DeviceHealth(uuid="g", xids=(xid,))) == [(words, wrong)]


@pytest.mark.parametrize(
    ("health", "words", "wrong"),
    [
        (
            DeviceHealth(uuid="g", ecc_corrected_volatile=4, ecc_uncorrected_volatile=0),
            "ECC errors: 4 corrected, 0 uncorrected since the driver was loaded",
            False,
        ),
        (
            DeviceHealth(uuid="g", ecc_uncorrected_volatile=3, ecc_uncorrected_aggregate=5),
            (
                "ECC errors: - corrected, 3 uncorrected since the driver was loaded; "
                "- corrected, 5 uncorrected in its life"
            ),
            True,
        ),
        (DeviceHealth(uuid="g", remapped_corrected=0), "no rows remapped", False),
        (
            DeviceHealth(uuid="g", remapped_corrected=2, remapped_uncorrected=1),
            "rows remapped: 2 corrected, 1 uncorrected",
            False,
        ),
        (DeviceHealth(uuid="g", remap_failed=True), "row remapping failed", True),
        (
            DeviceHealth(uuid="g", remap_pending=True),
            "a row waits to be remapped",
            True,
        ),
        (DeviceHealth(uuid="g", retire_pending=True), "a page waits to be retired", True),
        (
            DeviceHealth(uuid="g", recovery_action="reset"),
            "the driver asks for a reset of the card",
            True,
        ),
        (DeviceHealth(uuid="g", recovery_action="odd"), "the driver asks for: odd", True),
        (
            DeviceHealth(uuid="g", nvlinks=4, nvlinks_down=0, nvlink_crc_errors=7),
            "4 NVLinks, errors: 7 CRC",
            False,
        ),
    ],
)
def test_each_count_of_a_device_is_told_as_what_it_is(
    health: DeviceHealth, words: str, wrong: bool
) -> None:
    assert facts(health=health) == [(words, wrong)]


@pytest.mark.parametrize(
    ("pci", "words", "wrong"),
    [
        (
            PciLink(max_generation=4, card_generation=5, lanes=8, max_lanes=16),
            "PCIe generation 4 of the card's 5, 8 of 16 lanes",
            True,
        ),
        (
            PciLink(max_generation=5, card_generation=5, lanes=16),
            "PCIe generation 5, 16 lanes",
            False,
        ),
        (PciLink(lanes=1, max_lanes=1), "PCIe 1 of 1 lanes", False),
    ],
)
def test_a_pcie_link_below_what_it_could_be_is_wrong(pci: PciLink, words: str, wrong: bool) -> None:
    assert facts(Device(uuid="g", pci=pci)) == [(words, wrong)]


def test_an_idle_device_is_not_slowed_down_and_a_hot_one_is_wrong() -> None:
    assert facts(reading=DeviceSample(uuid="g", throttle_reasons=("idle",))) == []
    capped = DeviceSample(uuid="g", throttle_reasons=("power cap",))
    assert facts(reading=capped) == [("slowed down: power cap", False)]
    hot = DeviceSample(uuid="g", throttle_reasons=("idle", "heat (hardware)"))
    assert facts(reading=hot) == [("slowed down: heat (hardware)", True)]


def test_processes_that_are_not_ours_are_named() -> None:
    reading = DeviceSample(
        uuid="g",
        foreign=(
            ForeignProcess(pid=7, command="python", memory_bytes=2_500_000_000),
            ForeignProcess(pid=8),
            ForeignProcess(pid=9, command="Xorg", memory_bytes=142_000_000, kind="graphics"),
        ),
    )
    assert facts(reading=reading) == [
        ("not ours: pid 7 python, 2.5 GB", True),
        ("not ours: pid 8, memory not known", True),
        ("not ours: pid 9 Xorg, 0.1 GB, only draws", False),
    ]


@pytest.mark.parametrize(
    ("fabric", "domain", "words", "wrong"),
    [
        (
            NvlinkFabric(state="In Progress", status="N/A"),
            None,
            "NVLink fabric not joined: In Progress, N/A",
            True,
        ),
        (
            NvlinkFabric(state="Completed", status="Success", cluster_uuid=ZEROS, clique_id=0),
            None,
            "NVLink fabric of this machine alone",
            False,
        ),
        (
            NvlinkFabric(state="Completed", cluster_uuid=CLUSTER, clique_id=32766),
            NvlinkDomain(imex_running=False),
            "NVLink domain 1a2b3c4d/32766 not joined: nvidia-imex does not run",
            True,
        ),
        (
            NvlinkFabric(state="Completed", cluster_uuid=CLUSTER, clique_id=1),
            NvlinkDomain(imex_running=True, imex_channels=()),
            "NVLink domain 1a2b3c4d/1 not joined: nvidia-imex has no channel here",
            True,
        ),
        (
            NvlinkFabric(state="Completed", cluster_uuid=CLUSTER, clique_id=1),
            None,
            "NVLink domain 1a2b3c4d/1, not proven: whether nvidia-imex runs is not known",
            False,
        ),
        (
            NvlinkFabric(state="Completed", cluster_uuid=CLUSTER, clique_id=1),
            NvlinkDomain(imex_running=True, imex_channels=("channel0",)),
            "NVLink domain 1a2b3c4d/1 joined",
            False,
        ),
    ],
)
def test_a_gpu_says_whether_it_is_joined_to_an_nvlink_domain_and_why_not(
    fabric: NvlinkFabric, domain: NvlinkDomain | None, words: str, wrong: bool
) -> None:
    assert facts(Device(uuid="g", nvlink=fabric), domain=domain) == [(words, wrong)]


def test_what_people_read_of_a_domain_is_what_is_decided_of_it() -> None:
    for state, status, cluster in itertools.product(
        ("Completed", "In Progress"), ("Success", "Failure"), (None, ZEROS, CLUSTER)
    ):
        fabric = NvlinkFabric(state=state, status=status, cluster_uuid=cluster)
        for running, channels in itertools.product((None, False, True), (None, (), ("c0",))):
            domain = NvlinkDomain(imex_running=running, imex_channels=channels)
            (fact,) = fabric_facts(fabric, domain)
            joined = nvlink.joined(fabric, domain)
            assert fact.words.endswith("joined") == (joined is True), fact
            if "not joined" in fact.words:
                assert joined is False, fact
            if "not proven" in fact.words:
                assert joined is None, fact


def test_a_sick_fabric_is_told_also_where_it_is_joined() -> None:
    fabric = NvlinkFabric(state="Completed", cluster_uuid=ZEROS, health="Degraded Bandwidth")
    assert facts(Device(uuid="g", nvlink=fabric)) == [
        ("NVLink fabric health: Degraded Bandwidth", True),
        ("NVLink fabric of this machine alone", False),
    ]


def test_a_port_s_faults_are_its_error_counters_that_are_not_zero() -> None:
    port = Port(
        adapter="mlx5_0",
        number=1,
        counters=(
            PortCounter(name="symbol_error", value=12, at_ceiling=False),
            PortCounter(name="link_downed", value=255, at_ceiling=True),
            PortCounter(name="port_rcv_errors", value=0),
            PortCounter(name="port_xmit_data", value=10**12),
            PortCounter(name="local_ack_timeout_err", value=2),
        ),
    )
    assert port_faults(port) == (
        "symbol_error 12",
        "link_downed at least 255",
        "local_ack_timeout_err 2",
    )
    assert port_faults(Port(adapter="mlx5_0", number=1)) == ()


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (Port(adapter="a", number=1), ""),
        (Port(adapter="a", number=1, master_guid="0x1"), "master 0x1"),
        (Port(adapter="a", number=1, master_guid="0x1", fabric="compute"), "compute"),
        (Port(adapter="a", number=1, network="10.1.0.0/16"), "10.1.0.0/16"),
    ],
)
def test_a_port_says_what_it_is_plugged_into(port: Port, words: str) -> None:
    assert port_network(port) == words


def test_devices_that_share_a_fact_are_named_by_their_runs() -> None:
    def cards(*numbers: int) -> list[Device]:
        return [Device(uuid=str(n), kind="mig" if n >= 1000 else "gpu", number=n) for n in numbers]

    assert names_of(cards(0, 1, 2, 3, 6)) == "gpu0-gpu3, gpu6"
    assert names_of(cards(4, 5)) == "gpu4, gpu5"
    assert names_of(cards(1301, 1302, 1303)) == "gpu3/mig1-gpu3/mig3"
    assert names_of([Device(uuid="GPU-1"), Device(uuid="GPU-2")]) == "GPU-1, GPU-2"
    assert names_of([]) == ""


def test_a_card_stands_before_its_instances_also_where_it_is_not_listed() -> None:
    def instance(card: int, number: int) -> Device:
        return Device(
            uuid=f"MIG-{card}-{number}",
            kind="mig",
            number=1000 + 100 * card + number,
            card_uuid=f"GPU-{card}",
        )

    listed = [
        instance(3, 2),
        Device(uuid="GPU-0", kind="gpu", number=0),
        instance(3, 1),
        Device(uuid="GPU-5", kind="gpu", number=5),
        instance(5, 1),
        Device(uuid="odd"),
    ]
    found = with_cards(listed)
    assert [one.shown for one in found] == [
        "gpu0", "gpu3", "gpu3/mig1", "gpu3/mig2", "gpu5", "gpu5/mig1", "odd",
    ]  # fmt: skip
    assert [one.uuid for one in found if one.shown == "gpu3"] == ["GPU-3"]
