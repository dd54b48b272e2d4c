"""Records made of cards: classes that people count, MIG instances, and no card lost silently."""

from pathlib import Path

import msgspec
import pytest

from llmgw.model.device import Device, DeviceSample, ForeignProcess
from llmgw_agent.parse.card_devices import devices, samples
from llmgw_agent.parse.card_history import IN_DOUBT, since
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen, Instance
from llmgw_agent.parse.device_class import device_class
from llmgw_agent.parse.mig import (
    NOT_READ,
    NOTHING_CARVED,
    instance_class,
    instance_number,
    profile_of,
    with_instances,
)
from llmgw_agent.parse.nvidia_smi_list import read_list
from llmgw_agent.parse.nvidia_smi_xml import read_report
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures"
MIB = 1 << 20
UUID = "GPU-690adda0-83a8-3d78-cc28-02a859b88a85"
A100 = Card(index=2, uuid=UUID, name="NVIDIA A100-SXM4-80GB", memory_total=81920 * MIB, mig=True)
"""The card of the recorded report, as the third of a machine."""

LISTED = f"GPU 2: NVIDIA A100-SXM4-80GB (UUID: {UUID})\n" + "".join(
    f"  MIG 1g.20gb     Device  {index}: (UUID: MIG-00000000-0000-5000-8000-00000000010{index})\n"
    for index in range(4)
)


def report() -> CardsSeen:
    return read_report((FIXTURES / "nvidia-smi-q-x" / "a100-80g-mig-4x1g20gb.xml").read_text())


@pytest.mark.parametrize(
    ("name", "memory_mib", "expected"),
    [
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-40g"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-80g"),
        ("NVIDIA H200", 143771, "h200-141g"),
        ("NVIDIA L40S", 46068, "l40s-48g"),
        ("Tesla T4", 15360, "t4-16g"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090-24g"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96g"),
        ("NVIDIA GB10", None, "gb10"),
        ("Tesla V100-SXM2-32GB", None, "v100-32g"),
        ("Graphics Device", 5912, "gpu-6g"),
        (None, 5912, None),
    ],
)
def test_classes_are_those_that_people_count(name, memory_mib, expected):
    memory = None if memory_mib is None else memory_mib * MIB
    assert device_class(name, memory) == expected


def test_profiles_numbers_and_classes_of_instances():
    assert profile_of("NVIDIA A100-SXM4-80GB MIG 1g.20gb") == "1g.20gb"
    assert profile_of("NVIDIA A100-SXM4-80GB") is None
    assert instance_number(3, 1) == 1301
    assert instance_number(None, 1) is None
    assert instance_number(3, 100) is None
    assert instance_class("a100-80g", "3g.40gb") == "a100-80g-mig-3g.40gb"
    assert instance_class("a100-80g", None) is None


def test_a_card_in_mig_mode_is_told_as_its_instances():
    seen = with_instances(CardsSeen(cards=(A100,)), report(), read_list(LISTED))
    card, *instances = devices(seen.cards)
    assert (card.kind, card.mig_enabled, card.number, card.unhealthy) == ("gpu", True, 2, ())
    assert instances == [
        Device(
            uuid=f"MIG-00000000-0000-5000-8000-00000000010{index}",
            kind="mig",
            number=1200 + index,
            name="NVIDIA A100-SXM4-80GB",
            vendor="nvidia",
            device_class="a100-80g-mig-1g.20gb",
            card_uuid=UUID,
            memory_bytes=19968 * MIB,
            unified=False,
            mig_profile="1g.20gb",
            gpu_instance=3 + index,
            compute_instance=0,
            unhealthy=(),
        )
        for index in range(4)
    ]
    assert [device.shown for device in instances] == [f"gpu2/mig{index}" for index in range(4)]


def test_an_instance_has_no_figures_but_its_memory_and_processes():
    python = CardProcess(pid=71, name="python", memory_bytes=900 * MIB)
    own = CardProcess(pid=72, name="llama-server", memory_bytes=2 * MIB)
    part = Instance(
        index=0, uuid="MIG-a", memory_total=100, memory_used=50, processes=(python, own)
    )
    card = msgspec.structs.replace(
        A100, instances=(part,), busy=80.0, bandwidth=20.0, power=67.0, temperature=27.0
    )
    whole, sample = samples((card,), frozenset({72}), 3.0)
    assert (whole.busy_percent, whole.memory_bandwidth_percent) == (None, None)
    assert (whole.power_watts, whole.temperature_celsius) == (67.0, 27.0)
    assert sample == DeviceSample(
        uuid="MIG-a",
        memory_used_bytes=50,
        memory_total_bytes=100,
        foreign=(ForeignProcess(pid=71, command="python", memory_bytes=900 * MIB),),
        age=3.0,
    )


@pytest.mark.parametrize(("instances", "reason"), [((), NOTHING_CARVED), (None, NOT_READ)])
def test_a_card_in_mig_mode_without_instances_stays_out_with_that_reason(instances, reason):
    device = only(devices((msgspec.structs.replace(A100, instances=instances),)))
    assert (device.mig_enabled, device.unhealthy) == (True, (reason,))


def test_an_instance_without_a_name_or_on_a_broken_card_can_not_be_given_out():
    nameless = msgspec.structs.replace(A100, instances=(Instance(index=1, gpu_instance=4),))
    _, part = devices((nameless,))
    assert (part.uuid, part.device_class, part.number) == (f"{UUID}/mig1", None, 1201)
    assert "UUID" in only(part.unhealthy)
    broken = msgspec.structs.replace(
        A100, instances=(Instance(index=0, uuid="MIG-a"),), trouble="the card is lost"
    )
    assert [device.unhealthy for device in devices((broken,))] == [("the card is lost",)] * 2


def test_either_tool_alone_gives_what_it_knows_of_instances():
    seen = CardsSeen(cards=(A100,))
    by_list = only(with_instances(seen, None, read_list(LISTED)).cards)
    assert [one.profile for one in by_list.instances or ()] == ["1g.20gb"] * 4
    assert [one.memory_total for one in by_list.instances or ()] == [None] * 4
    by_report = only(with_instances(seen, report(), None).cards)
    assert [one.gpu_instance for one in by_report.instances or ()] == [3, 4, 5, 6]
    assert [one.uuid for one in by_report.instances or ()] == [None] * 4
    assert only(with_instances(seen, None, None).cards).instances is None
    whole = msgspec.structs.replace(A100, mig=False)
    assert with_instances(CardsSeen(cards=(whole,)), report(), read_list(LISTED)).cards == (whole,)


def card(place: int, **more: object) -> Card:
    return Card(
        index=place,
        uuid=f"GPU-{place}",
        name="NVIDIA H100 80GB HBM3",
        pci_address=f"00000000:1{place}:00.0",
        memory_total=81559 * MIB,
        **more,  # type: ignore[arg-type]
    )


def test_a_card_that_vanished_stays_as_unhealthy():
    now = since((card(0, power=80.0),), CardsSeen())
    device = only(devices(now.cards))
    assert (device.uuid, device.device_class) == ("GPU-0", "h100-80g")
    assert device.unhealthy == ("the driver no longer lists the card",)
    assert only(now.cards).power is None


def test_a_cut_answer_says_nothing_about_the_cards_that_it_lacks():
    before = (card(0), card(1))
    now = since(before, CardsSeen(cards=(card(0),), cut=True))
    assert [device.unhealthy for device in devices(now.cards)] == [(), ()]


def test_a_card_is_known_again_by_its_address_or_its_number():
    before = (card(0), card(1))
    by_address = Card(index=7, pci_address="0000:11:00.0", trouble="lost")
    by_number = Card(index=0, trouble="lost too")
    now = since(before, CardsSeen(cards=(by_address, by_number)))
    assert [(one.uuid, one.trouble) for one in now.cards] == [
        ("GPU-1", "lost"),
        ("GPU-0", "lost too"),
    ]


def test_what_does_not_change_is_kept_where_a_reading_lacks_it():
    now = since((card(0, mig=False),), CardsSeen(cards=(Card(uuid="GPU-0", power=80.0),)))
    kept = only(now.cards)
    assert (kept.name, kept.memory_total, kept.index) == (
        "NVIDIA H100 80GB HBM3",
        81559 * MIB,
        0,
    )
    assert kept.power == 80.0


def test_a_card_that_leaves_mig_mode_has_no_instances_any_more():
    cut = (card(0, mig=True, instances=(Instance(index=0, uuid="MIG-a"),)),)
    unread = since(cut, CardsSeen(cards=(card(0, mig=True),)))
    assert [one.unhealthy for one in devices(unread.cards)] == [(), (IN_DOUBT,)]
    whole = since(cut, CardsSeen(cards=(card(0, mig=False),)))
    assert len(devices(whole.cards)) == 1


def test_a_card_is_told_once_however_often_it_is_listed():
    assert len(since((), CardsSeen(cards=(card(0), card(0), card(1)))).cards) == 2


def test_a_card_with_nothing_to_do_is_not_slowed_down():
    bits = {0x0: (), 0x1: (), 0x5: ("power cap",), 0x2: ("application clocks",), None: None}
    for said, told in bits.items():
        one = card(0, throttle_bits=said)
        assert only(samples((one,), frozenset(), 1.0)).throttle_reasons == told


def test_a_process_is_told_with_what_it_does():
    kinds = {"C": "compute", "M+C": "compute", "G": "graphics", "C+G": "both", None: None}
    for said, told in kinds.items():
        one = card(0, processes=(CardProcess(pid=7, kind=said),))
        assert only(only(samples((one,), frozenset(), 1.0)).foreign).kind == told
