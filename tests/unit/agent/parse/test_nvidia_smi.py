"""nvidia-smi's tables: a field that is missing costs itself, and a broken card is never silent."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cards import CardsSeen, devices, samples, since
from llmgw_agent.parse.nvidia_smi import (
    APP_FIELDS,
    CARD_FIELDS,
    NEWER_FIELDS,
    read_cards,
    read_failure,
    read_processes,
    read_rows,
    unknown_field,
    with_processes,
)

FIXTURES = Path(__file__).parents[3] / "fixtures"
MIB = 1 << 20
HEADER = ", ".join((*CARD_FIELDS, *NEWER_FIELDS))
H100 = (
    "0, GPU-1, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 81559, 1234, 97, 40, 55, 612.30, 700.00, "
    "1980, [N/A], 550.54.15, Disabled, 0, 3, 0x0000000000000004, 9.0"
)


def text(name: str) -> str:
    folder = "nvidia-smi-csv" if name.endswith(".csv") else "nvidia-smi-errors"
    return (FIXTURES / folder / name).read_text()


def test_a_card_is_read_by_its_header_and_an_absent_fan_is_none():
    (card,) = read_cards(text("p100-query.csv")).cards
    assert card.name == "Tesla P100-PCIE-16GB"
    assert card.uuid == "GPU-b8f1448c-f86e-f2ef-19fa-f3a1b98cc44f"
    assert card.fan is None
    assert (card.busy, card.bandwidth, card.power, card.temperature) == (0.0, 0.0, 28.16, 37.0)
    assert card.sm_clock == 405.0
    assert card.memory_used == 0
    assert card.trouble is None


def test_cards_without_a_header_are_read_by_the_fields_that_were_asked_for():
    fields = (
        *("index", "uuid", "name", "temperature.gpu"),
        *("utilization.gpu", "memory.used", "memory.total"),
    )
    cards = read_cards(text("titanx-8-nounits.csv"), fields).cards
    assert [card.index for card in cards] == list(range(8))
    assert [card.busy for card in cards] == [0.0, 86.0, 85.0, 60.0, 84.0, 83.0, 83.0, 82.0]
    assert cards[1].memory_used == 10032 * MIB
    (device, *_) = devices(cards)
    assert device.device_class == "gtx-titan-x-12g"


def test_unified_memory_is_unknown_and_neither_zero_nor_a_lost_card():
    (card,) = read_cards(text("gb10-memory-na.csv")).cards
    assert card.memory_total is None
    assert card.memory_of_its_own is False
    assert (card.busy, card.power, card.temperature) == (0.0, 11.17, 35.0)


def test_every_field_of_a_healthy_card_reaches_its_records():
    seen = read_cards(f"{HEADER}\n{H100}\n")
    assert seen.driver == "550.54.15"
    (device,) = devices(seen.cards)
    assert device.device_class == "h100-80g"
    assert device.memory_bytes == 81559 * MIB
    assert device.unified is False
    assert device.compute_capability == "9.0"
    assert device.unhealthy == ()
    (sample,) = samples(seen.cards, frozenset(), 1.5)
    assert sample.throttle_reasons == ("power cap",)
    assert (sample.ecc_corrected, sample.ecc_uncorrected) == (0, 3)
    assert (sample.fan_percent, sample.age) == (None, 1.5)
    assert sample.foreign is None


def test_a_header_that_a_newer_driver_spells_otherwise_costs_nothing():
    header = HEADER.replace("clocks.sm", "clocks.current.sm [MHz]").replace(
        "clocks_throttle_reasons.active", "clocks_event_reasons.active"
    )
    (card,) = read_cards(f"{header}\n{H100}\n").cards
    assert (card.sm_clock, card.throttle_bits) == (1980.0, 4)


def test_a_shorter_row_lacks_its_last_fields_alone():
    (card,) = read_cards(f"{HEADER}\n{', '.join(H100.split(', ')[:8])}\n").cards
    assert card.bandwidth == 40.0
    assert (card.temperature, card.mig, card.compute_capability) == (None, None, None)


def test_unknown_error_in_a_field_costs_that_field():
    row = H100.replace("612.30", "[Unknown Error]").replace("97, 40", "ERR!, 40")
    (card,) = read_cards(f"{HEADER}\n{row}\n").cards
    assert (card.power, card.busy, card.bandwidth, card.uuid) == (None, None, 40.0, "GPU-1")


def test_a_card_that_tells_no_uuid_is_unhealthy_and_not_absent():
    row = H100.replace("GPU-1", "[Unknown Error]")
    (device,) = devices(read_cards(f"{HEADER}\n{row}\n").cards)
    assert device.uuid == "unreadable-00000000:18:00.0"
    assert device.unhealthy is not None
    assert "Unknown Error" in device.unhealthy[0]


def test_a_card_in_mig_mode_is_kept_from_placement():
    row = H100.replace("Disabled", "Enabled")
    seen = read_cards(f"{HEADER}\n{row}\n")
    (device,) = devices(seen.cards)
    assert device.mig_enabled is True
    assert device.unhealthy
    assert samples(seen.cards, frozenset(), 0.0)[0].busy_percent is None


def test_a_lost_card_is_told_with_the_tools_words():
    for name, address in (
        ("gpu-lost.txt", "0000:02:00.0"),
        ("unknown-error-2080ti.txt", "0000:0B:00.0"),
    ):
        seen = read_failure(text(name), 15)
        (card,) = seen.cards
        assert card.pci_address == address
        assert card.trouble is not None
        assert "Unable to determine the device handle" in card.trouble
        assert seen.warning is not None


def test_no_devices_is_no_failure_and_no_driver_is_a_warning():
    assert read_failure(text("no-devices.txt"), 6) == CardsSeen()
    seen = read_failure(text("driver-not-loaded.txt"), 9)
    assert seen.cards == ()
    assert "driver is not loaded" in (seen.warning or "")


def test_a_driver_that_was_updated_asks_for_a_reboot():
    said = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550"
    assert "reboot" in (read_failure(said, 18).warning or "")


def test_anything_else_is_unreadable_and_quoted():
    with pytest.raises(Unreadable, match="segmentation fault"):
        read_failure("segmentation fault", -11)


def test_a_field_that_a_driver_does_not_know_is_named():
    assert unknown_field('Field "compute_cap" is not a valid field to query.\n') == "compute_cap"
    assert unknown_field("No devices were found") is None


def test_processes_are_put_on_their_cards_and_own_ones_are_not_foreign():
    apps = "gpu_uuid, pid, used_gpu_memory [MiB], process_name\nGPU-1, 12, 512, python\n"
    apps += "GPU-1, 13, [N/A], [Not Found]\nGPU-9, 14, 1, x\n"
    seen = with_processes(read_cards(f"{HEADER}\n{H100}\n"), read_processes(apps))
    (sample,) = samples(seen.cards, frozenset({12}), 0.0)
    assert sample.foreign is not None
    (foreign,) = sample.foreign
    assert (foreign.pid, foreign.memory_bytes, foreign.command) == (13, None, None)


def test_a_card_that_vanished_stays_as_unhealthy():
    before = read_cards(f"{HEADER}\n{H100}\n")
    now = since(before.cards, CardsSeen())
    (device,) = devices(now.cards)
    assert device.uuid == "GPU-1"
    assert device.device_class == "h100-80g"
    assert device.unhealthy == ("the driver no longer lists the card",)


def test_a_lost_card_keeps_the_name_it_had_and_the_others_are_unreadable_too():
    row = H100.replace("GPU-1", "GPU-2").replace("00000000:18:00.0", "00000000:2a:00.0")
    before = read_cards(f"{HEADER}\n{H100}\n{row}\n")
    lost = "Unable to determine the device handle for GPU 0000:18:00.0: GPU is lost.  Reboot"
    now = devices(since(before.cards, read_failure(lost, 15)).cards)
    assert [device.uuid for device in now] == ["GPU-1", "GPU-2"]
    assert all(device.unhealthy for device in now)


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
    ],
)
def test_classes_are_those_that_people_count(name, memory_mib, expected):
    from llmgw_agent.parse.cards import device_class

    memory = None if memory_mib is None else memory_mib * MIB
    assert device_class(name, memory) == expected


CSV_NOISE = st.one_of(
    st.text(),
    st.lists(st.sampled_from([*H100.split(", "), "[N/A]", "ERR!", "\n", "0x", "9" * 400])).map(
        ", ".join
    ),
)


@given(CSV_NOISE)
def test_no_table_makes_the_reader_raise_anything_but_unreadable(noise):
    for whole in (noise, f"{HEADER}\n{noise}"):
        try:
            seen = read_cards(whole)
        except Unreadable:
            continue
        devices(seen.cards)
        samples(seen.cards, frozenset(), None)
        since(seen.cards, CardsSeen())


@given(CSV_NOISE)
def test_no_list_of_processes_raises(noise):
    read_processes(noise)
    read_rows(noise, APP_FIELDS)


@given(st.text(), st.integers(-20, 255))
def test_no_failure_raises_anything_but_unreadable(said, rc):
    with suppress(Unreadable):
        read_failure(said, rc)
