"""nvidia-smi's tables: a field that is missing costs itself, and a broken card is never silent.

Values of recorded answers are typed from their text, which stands beside them.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.model.device import NvlinkFabric, PciLink
from llmgw_agent.parse.card_devices import devices, samples
from llmgw_agent.parse.card_history import since
from llmgw_agent.parse.cards import LOST, RESET_REQUIRED, Card, CardProcess, CardsSeen
from llmgw_agent.parse.nvidia_smi import (
    CARD_FIELDS,
    LINK_FIELDS,
    NEWER_FIELDS,
    read_cards,
    read_fields,
    read_file,
    read_processes,
    with_processes,
)
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-csv"
MIB = 1 << 20
UUID = "GPU-b8f1448c-f86e-f2ef-19fa-f3a1b98cc44f"
HEADER = ", ".join((*CARD_FIELDS, *NEWER_FIELDS))
H100 = (
    f"0, {UUID}, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 81559, 1234, 97, 40, 55, 612.30, "
    "700.00, 1980, [N/A], 550.54.15, 63, Disabled, 0, 3, 0x0000000000000004, 9.0"
)


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_a_card_is_read_by_its_header_and_an_absent_fan_is_none():
    # Tesla P100-PCIE-16GB, GPU-b8f1448c-…, [N/A], P0, 103, 0, 16280, 0, 0, 37, 28.16, 405, 405, …
    assert read_file(text("p100-query.csv")) == CardsSeen(
        cards=(
            Card(
                uuid="GPU-b8f1448c-f86e-f2ef-19fa-f3a1b98cc44f",
                name="Tesla P100-PCIE-16GB",
                memory_used=0,  # memory.used [MiB]: 0
                busy=0.0,  # utilization.gpu [%]: 0
                bandwidth=0.0,  # utilization.memory [%]: 0
                temperature=37.0,  # temperature.gpu: 37
                power=28.16,  # power.draw [W]: 28.16
                sm_clock=405.0,  # clocks.current.sm [MHz]: 405
                fan=None,  # fan.speed [%]: [N/A]
            ),
        )
    )


def test_cards_without_a_header_are_read_by_the_fields_that_were_asked_for():
    fields = (
        *("index", "uuid", "name", "temperature.gpu"),
        *("utilization.gpu", "memory.used", "memory.total"),
    )
    cards = read_cards(text("titanx-8-nounits.csv"), fields).cards
    # 0, GPU-26acce60-5966-df85-dd8b-7ad73a76247b, GeForce GTX TITAN X, 25, 0, 802, 12206
    assert cards[0] == Card(
        index=0,
        uuid="GPU-26acce60-5966-df85-dd8b-7ad73a76247b",
        name="GeForce GTX TITAN X",
        temperature=25.0,
        busy=0.0,
        memory_used=802 * MIB,
        memory_total=12206 * MIB,
        memory_of_its_own=True,
    )
    # … 25, 0, 802 / 54, 86, 10032 / 55, 85, 6442 / 58, 60, 6442 / 55, 84, 6459 / 54, 83, 6440 /
    # 56, 83, 6451 / 55, 82, 6442
    assert [card.temperature for card in cards] == [25, 54, 55, 58, 55, 54, 56, 55]
    assert [card.busy for card in cards] == [0, 86, 85, 60, 84, 83, 83, 82]
    used = (802, 10032, 6442, 6442, 6459, 6440, 6451, 6442)
    assert [card.memory_used for card in cards] == [mib * MIB for mib in used]
    assert [card.index for card in cards] == list(range(8))
    with pytest.raises(Unreadable, match="no names of columns"):
        read_file(text("titanx-8-nounits.csv"))


def test_unified_memory_is_unknown_and_neither_zero_nor_a_lost_card():
    # [N/A], [N/A], [N/A], 0 %, 11.17 W, 35
    assert read_file(text("gb10-memory-na.csv")).cards == (
        Card(
            memory_total=None,
            memory_used=None,
            memory_of_its_own=False,
            busy=0.0,
            power=11.17,
            temperature=35.0,
        ),
    )


def test_a_column_is_known_by_both_its_names():
    # index, fabric.clique_id / 0, 1 / 1, 1 / 2, 1 / 3, 1
    cards = read_file(text("fabric-clique.csv")).cards
    assert cards == tuple(Card(index=index, fabric=NvlinkFabric(clique_id=1)) for index in range(4))
    asked = read_cards(text("fabric-clique.csv"), ("index", "fabric.cliqueId"))
    assert asked.cards == cards


def test_which_fields_a_driver_knows():
    fields = read_fields(text("help-query-gpu-510.txt"))
    # "utilization.gpu" / "mig.mode.current" / "pcie.link.gen.max" / "clocks.current.sm" or
    # "clocks.sm" / "enforced.power.limit" / "temperature.memory" / "compute_cap"
    assert {
        *("utilization.gpu", "mig.mode.current", "pcie.link.gen.max", "clocks.current.sm"),
        *("clocks.sm", "enforced.power.limit", "temperature.memory", "compute_cap"),
    } <= fields
    assert not {"pcie.link.gen.gpumax", "fabric.state", "Default", "0"} & fields
    # Every field that the agent asks for first is known to a driver of 2022.
    assert {*CARD_FIELDS, *NEWER_FIELDS} <= fields
    with pytest.raises(Unreadable, match="Invalid combination"):
        read_fields("Invalid combination of input arguments.")


def test_every_field_of_a_healthy_card_reaches_its_records():
    seen = read_cards(f"{HEADER}\n{H100}\n")
    assert seen.driver == "550.54.15"
    device = only(devices(seen.cards))
    assert device.device_class == "h100-80g"
    assert device.memory_bytes == 81559 * MIB
    assert device.unified is False
    assert device.compute_capability == "9.0"
    assert device.unhealthy == ()
    sample = only(samples(seen.cards, frozenset(), 1.5))
    assert sample.throttle_reasons == ("power cap",)
    assert (sample.ecc_corrected, sample.ecc_uncorrected) == (0, 3)
    assert (sample.temperature_celsius, sample.memory_temperature_celsius) == (55.0, 63.0)
    assert (sample.power_watts, sample.power_limit_watts) == (612.3, 700.0)
    assert (sample.fan_percent, sample.age) == (None, 1.5)
    assert sample.foreign is None


def test_a_header_that_a_newer_driver_spells_otherwise_costs_nothing():
    header = HEADER.replace("clocks.sm", "clocks.current.sm [MHz]").replace(
        "clocks_throttle_reasons.active", "clocks_event_reasons.active"
    )
    card = only(read_cards(f"{header}\n{H100}\n").cards)
    assert (card.sm_clock, card.throttle_bits) == (1980.0, 4)


def test_a_shorter_row_lacks_its_last_fields_alone():
    seen = read_cards(f"{HEADER}\n{', '.join(H100.split(', ')[:8])}\n")
    card = only(seen.cards)
    assert card.bandwidth == 40.0
    assert (card.temperature, card.mig, card.compute_capability) == (None, None, None)
    assert seen.cut is False


def test_a_row_that_was_cut_is_not_believed_and_the_others_are():
    other = H100.replace(UUID, "GPU-1954f77f-b1d1-8dba-6fd1-0cf40b811dd9")
    for half in (H100[:70], H100[:-2].rpartition(", ")[0], "0"):
        seen = read_cards(f"{HEADER}\n{other}\n{half}")
        assert seen.cut is True
        assert only(seen.cards).uuid == "GPU-1954f77f-b1d1-8dba-6fd1-0cf40b811dd9"
    with pytest.raises(Unreadable):
        read_cards(f"{HEADER}\n{H100[:70]}")
    whole = read_cards(f"{HEADER}\n{other}\n{H100}")
    assert (len(whole.cards), whole.cut) == (2, False)


def test_a_part_of_a_uuid_is_no_uuid():
    card = only(read_cards(f"{HEADER}\n{H100.replace(UUID, UUID[:20])}\n").cards)
    assert card.uuid is None
    assert card.trouble == f"the driver does not tell the card's UUID: {UUID[:20]}"


def test_unknown_error_in_a_field_costs_that_field():
    row = H100.replace("612.30", "[Unknown Error]").replace("97, 40", "ERR!, 40")
    card = only(read_cards(f"{HEADER}\n{row}\n").cards)
    assert (card.power, card.busy, card.bandwidth, card.uuid) == (None, None, 40.0, UUID)
    assert card.trouble is None


@pytest.mark.parametrize(
    ("cell", "trouble"),
    [
        ("[GPU is lost]", LOST),
        ("[GPU requires reset]", RESET_REQUIRED),
        ("[Unknown Error]", "the driver answers nothing for the card: [Unknown Error]"),
    ],
)
def test_a_card_that_answers_nothing_is_unhealthy_and_not_absent(cell: str, trouble: str):
    row = H100.replace("81559, 1234, 97, 40, 55, 612.30", ", ".join([cell] * 6))
    device = only(devices(read_cards(f"{HEADER}\n{row}\n").cards))
    assert (device.uuid, device.unhealthy) == (UUID, (trouble,))


def test_a_card_that_tells_no_uuid_is_unhealthy_and_not_absent():
    row = H100.replace(UUID, "[Unknown Error]")
    device = only(devices(read_cards(f"{HEADER}\n{row}\n").cards))
    assert device.uuid == "unreadable-00000000:18:00.0"
    assert device.unhealthy == ("the driver does not tell the card's UUID: [Unknown Error]",)


def test_a_card_that_is_lost_stands_beside_the_rows_of_the_others():
    said = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"
    healthy, lost = read_cards(f"{said}\n{HEADER}\n{H100}\n").cards
    assert (healthy.uuid, healthy.trouble) == (UUID, None)
    assert (lost.index, lost.pci_address) == (1, "0000:34:00.0")
    assert lost.trouble == f"nvidia-smi: {said}"


def test_what_is_said_between_rows_is_no_card():
    noise = "WARNING: infoROM is corrupted at gpu 0000:18:00.0, see above"
    assert only(read_cards(f"{HEADER}\n{H100}\n{noise}\n").cards).uuid == UUID


def test_links_are_read_apart_and_what_an_older_driver_leaves_out_is_none():
    header = ", ".join(LINK_FIELDS)
    card = only(read_cards(f"{header}\n0, {UUID}, 3, 8, 16, 4, 3\n", LINK_FIELDS).cards)
    assert card.pci == PciLink(max_generation=3, card_generation=4, lanes=8, max_lanes=16)
    assert card.slot_generation == 3
    older = LINK_FIELDS[:5]
    card = only(read_cards(f"{', '.join(older)}\n0, {UUID}, 3, 8, 16\n", older).cards)
    assert card.pci == PciLink(max_generation=3, lanes=8, max_lanes=16)
    row = f"0, {UUID}, [N/A], [N/A], [N/A]"
    assert only(read_cards(f"{', '.join(older)}\n{row}\n", older).cards).pci is None


def test_processes_are_put_on_their_cards_and_own_ones_are_not_foreign():
    other = "GPU-1954f77f-b1d1-8dba-6fd1-0cf40b811dd9"
    apps = (
        "gpu_uuid, pid, used_gpu_memory [MiB], process_name\n"
        f"{UUID}, 12, 512, python\n{UUID}, 13, [N/A], [Not Found]\n"
        f"{other}, 14, 1, /opt/a, b/x\n"
    )
    found = read_processes(apps)
    assert found[other] == (CardProcess(pid=14, name="/opt/a, b/x", memory_bytes=MIB, kind="C"),)
    seen = with_processes(read_cards(f"{HEADER}\n{H100}\n"), found)
    sample = only(samples(seen.cards, frozenset({12}), 0.0))
    foreign = only(sample.foreign)
    assert (foreign.pid, foreign.memory_bytes, foreign.command) == (13, None, None)


def test_a_list_of_processes_that_was_cut_says_nothing():
    with pytest.raises(Unreadable, match="end in the middle"):
        read_processes(f"gpu_uuid, pid, used_gpu_memory [MiB], process_name\n{UUID}, 12")
    assert read_processes("") == {}


CSV_NOISE = st.one_of(
    st.text(),
    st.lists(st.sampled_from([*H100.split(", "), "[N/A]", "ERR!", "\n", "0x", "9" * 400])).map(
        ", ".join
    ),
)


@given(CSV_NOISE)
def test_no_table_makes_the_reader_raise_anything_but_unreadable(noise: str):
    for whole in (noise, f"{HEADER}\n{noise}", f"{HEADER}\n{H100}\n{noise}"):
        try:
            seen = read_cards(whole)
        except Unreadable:
            continue
        again = since(seen.cards, seen)
        assert len({device.uuid for device in devices(again.cards)}) == len(devices(again.cards))
        samples(seen.cards, frozenset(), None)


@given(CSV_NOISE)
def test_no_other_table_raises_anything_but_unreadable(noise: str):
    for read in (read_processes, read_fields, read_file):
        try:
            read(noise)
        except Unreadable:
            continue
