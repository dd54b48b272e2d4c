"""Cards through NVML, in the records' units; a question that is not answered costs its field."""

import re
from pathlib import Path

import pynvml
import pytest

from llmgw.base.errors import NotFound, Unreadable
from llmgw.model.device import DeviceHealth, PciLink
from llmgw_agent.parse.cards import LOST, Card, CardProcess, CardsSeen, Instance
from llmgw_agent.parse.nvidia_smi_errors import MISMATCH
from llmgw_agent.probe.card_request import CARDS, LINKS, USE
from llmgw_agent.probe.nvml_side import Nvml
from tests.fakes.nvml import FakeCard, FakeLink, FakeNvml, FakePart, FakeProcess
from tests.only import only

SOURCES = Path(__file__).parents[4] / "agent" / "llmgw_agent" / "probe"
GPU, SWITCH = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU, pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
GIB = 1 << 30


def test_every_question_is_one_that_the_library_knows():
    asked = set[str]()
    for source in SOURCES.glob("nvml_*.py"):
        text = source.read_text()
        asked |= set(re.findall(r"\b(?:nvml[A-Z]|NVML_|c_nvml)\w+", text))
        asked |= {f"nvmlDeviceGet{name}" for name in re.findall(r'told\("(\w+)"\)', text)}
    asked -= {"NVML_MEMORY_ERROR_TYPE_", "nvmlDeviceGet", "nvmlReturn"}  # beginnings, a field
    assert len(asked) > 40
    assert {name for name in asked if not hasattr(pynvml, name)} == set()


def test_a_card_that_supports_nothing_still_has_its_name():
    nvml = FakeNvml(FakeCard(uuid="GPU-1", compute=None))
    assert only(Nvml(nvml).read().cards) == Card(index=0, uuid="GPU-1", memory_of_its_own=False)
    use = only(Nvml(nvml).read(USE).cards)
    assert (use.processes, use.memory_of_its_own) == (None, False)
    links = only(Nvml(nvml).read(LINKS).cards)
    assert (links.pci, links.nvlink_peers, links.health) == (None, None, None)


def test_readings_come_in_the_records_units():
    corrected, uncorrected = (pynvml.NVML_VOLATILE_ECC,) * 2
    card = FakeCard(
        uuid="GPU-1",
        name="NVIDIA H100",
        pci_address="00000000:18:00.0",
        memory=(80 * GIB, 8 * GIB),
        utilization=(97, 40),
        temperature=55,
        memory_temperature=63,
        power=612_300,
        power_limit=700_000,
        sm_clock=1980,
        fan=30,
        mig=False,
        capability=(9, 0),
        reasons=4,
        ecc={
            (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, corrected): 0,
            (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, uncorrected): 3,
        },
        replays=2,
    )
    seen = Nvml(FakeNvml(card, driver="550.54.15", cuda=12040)).read(CARDS)
    assert seen == CardsSeen(
        driver="550.54.15",
        cuda="12.4",
        cards=(
            Card(
                index=0,
                uuid="GPU-1",
                name="NVIDIA H100",
                pci_address="00000000:18:00.0",
                memory_total=80 * GIB,
                memory_used=8 * GIB,
                memory_of_its_own=True,
                busy=97.0,
                bandwidth=40.0,
                temperature=55.0,
                memory_temperature=63.0,
                power=612.3,
                power_limit=700.0,
                sm_clock=1980.0,
                fan=30.0,
                mig=False,
                compute_capability="9.0",
                throttle_bits=4,
                ecc_corrected=0,
                ecc_uncorrected=3,
                pcie_replays=2,
            ),
        ),
    )


def test_the_guest_of_a_virtual_gpu_measures_no_heat_and_no_clock():
    card = only(Nvml(FakeNvml(FakeCard(uuid="GPU-1", temperature=0, sm_clock=0))).read().cards)
    assert (card.temperature, card.sm_clock) == (None, None)


def test_processes_that_compute_draw_or_share_are_each_told_once():
    card = FakeCard(
        uuid="GPU-1",
        compute=(FakeProcess(7, 512), FakeProcess(8)),
        graphics=(FakeProcess(8, 64), FakeProcess(9, 4)),
        mps=(FakeProcess(10, 2),),
    )
    nvml = FakeNvml(card)
    nvml.names = {7: "python", 9: "/usr/lib/xorg/Xorg"}
    assert only(Nvml(nvml).read(USE).cards).processes == (
        CardProcess(pid=7, name="python", memory_bytes=512, kind="C"),
        CardProcess(pid=8, memory_bytes=64, kind="C+G"),
        CardProcess(pid=10, memory_bytes=2, kind="M+C"),
        CardProcess(pid=9, name="/usr/lib/xorg/Xorg", memory_bytes=4, kind="G"),
    )


def test_when_those_that_compute_can_not_be_asked_for_nobody_knows_who_is_there():
    card = FakeCard(uuid="GPU-1", compute=None, graphics=(FakeProcess(9, 4),))
    assert only(Nvml(FakeNvml(card)).read(USE).cards).processes is None


def test_an_older_driver_lists_processes_in_its_own_form(monkeypatch):
    nvml = FakeNvml(FakeCard(uuid="GPU-1", compute=(FakeProcess(7, 512),)))
    name = "nvmlDeviceGetComputeRunningProcesses"
    older = getattr(nvml, name)

    def newest(_handle: object) -> object:
        raise pynvml.NVMLLibraryMismatchError("Unversioned function called")

    monkeypatch.setattr(nvml, name, newest, raising=False)
    assert only(Nvml(nvml).read(USE).cards).processes is None
    monkeypatch.setattr(nvml, f"{name}_v2", older, raising=False)
    python = CardProcess(pid=7, memory_bytes=512, kind="C")
    assert only(Nvml(nvml).read(USE).cards).processes == (python,)


def test_a_card_in_mig_mode_has_its_instances_and_no_figures_of_work():
    part = FakePart(
        uuid="MIG-a",
        name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        gpu_instance=2,
        compute_instance=0,
        multiprocessors=42,
        memory=(40 * GIB, 37),
        compute=(FakeProcess(71, 35, gpuInstanceId=2, computeInstanceId=0),),
    )
    card = FakeCard(
        uuid="GPU-1",
        mig=True,
        parts={1: part},
        utilization=(80, 20),
        gpm={2: 50.0},
        power=67_030,
        compute=(FakeProcess(71, 35, gpuInstanceId=2, computeInstanceId=0), FakeProcess(72, 1)),
    )
    nvml = Nvml(FakeNvml(card))
    nvml.read()
    seen = only(nvml.read().cards)
    assert only(nvml.read(USE).cards).instances == (
        Instance(
            index=1,
            uuid="MIG-a",
            profile="3g.40gb",
            gpu_instance=2,
            compute_instance=0,
            multiprocessors=42,
            memory_total=40 * GIB,
            memory_used=37,
            processes=(CardProcess(pid=71, memory_bytes=35, kind="C"),),
        ),
    )
    assert only(seen.instances).processes is None
    assert (seen.busy, seen.bandwidth, seen.sm_active, seen.power) == (None, None, None, 67.03)
    assert only(nvml.read(USE).cards).processes == (CardProcess(pid=72, memory_bytes=1, kind="C"),)


def test_work_is_the_figure_between_two_samples_which_are_all_given_back():
    card = FakeCard(uuid="GPU-1", gpm={2: 61.5, 3: 30.25, 5: 12.0, 10: 44.0})
    fake = FakeNvml(card)
    nvml = Nvml(fake)
    first = only(nvml.read().cards)
    assert (first.sm_active, first.dram_active) == (None, None)
    second = only(nvml.read().cards)
    assert (second.sm_active, second.sm_occupancy) == (61.5, 30.25)
    assert (second.tensor_active, second.dram_active) == (12.0, 44.0)
    card.gpm = {2: float("nan"), 3: -1.0, 10: 120.0}
    odd = only(nvml.read().cards)
    figures = (odd.sm_active, odd.sm_occupancy, odd.tensor_active, odd.dram_active)
    assert figures == (None, None, None, None)
    for _ in range(20):
        nvml.read()
    assert fake.samples == 1
    card.fails = pynvml.NVML_ERROR_UNKNOWN
    nvml.read()
    assert fake.samples == 0


def test_a_card_before_hopper_is_asked_once_whether_it_can():
    assert only(Nvml(FakeNvml(FakeCard(uuid="GPU-1"))).read().cards).sm_active is None


def test_links_and_wear_are_told_apart_from_the_readings():
    volatile, aggregate = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
    bad = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    card = FakeCard(
        uuid="GPU-1",
        pci=(3, 4, 8, 16),
        remapped=(0, 4, 1, 0),
        ecc={(bad, volatile): 1, (bad, aggregate): 5},
    )
    seen = only(Nvml(FakeNvml(card)).read(LINKS).cards)
    assert seen.pci == PciLink(max_generation=3, card_generation=4, lanes=8, max_lanes=16)
    assert seen.health == DeviceHealth(
        uuid="GPU-1",
        ecc_uncorrected_volatile=1,
        ecc_uncorrected_aggregate=5,
        remapped_corrected=0,
        remapped_uncorrected=4,
        remap_pending=True,
        remap_failed=False,
    )


def test_peers_are_the_cards_that_links_lead_to_and_links_that_are_down_are_counted():
    first = FakeCard(
        uuid="GPU-1",
        pci_address="00000000:18:00.0",
        links={0: FakeLink(to="00000000:2A:00.0"), 1: FakeLink(up=False, to="00000000:3A:00.0")},
    )
    second = FakeCard(
        uuid="GPU-2", pci_address="00000000:2A:00.0", links={0: FakeLink(to="00000000:18:00.0")}
    )
    third = FakeCard(uuid="GPU-3", pci_address="00000000:3A:00.0")
    cards = Nvml(FakeNvml(first, second, third)).read(LINKS).cards
    assert [card.nvlink_peers for card in cards] == [("GPU-2",), ("GPU-1",), None]
    assert cards[0].health == DeviceHealth(uuid="GPU-1", nvlinks=2, nvlinks_down=1)


def test_cards_behind_switches_reach_one_another():
    links = {link: FakeLink(kind=SWITCH, to="00000000:C1:00.0") for link in range(18)}
    cards = [FakeCard(uuid=f"GPU-{place}", links=dict(links)) for place in range(3)]
    cards.append(FakeCard(uuid="GPU-3", links={0: FakeLink(up=False)}))
    seen = Nvml(FakeNvml(*cards)).read(LINKS).cards
    assert seen[0].nvlink_peers == ("GPU-1", "GPU-2")
    assert seen[3].nvlink_peers == ()
    assert [card.health and card.health.nvlinks for card in seen] == [18, 18, 18, 1]


def test_one_lost_card_costs_itself_alone():
    nvml = FakeNvml(*(FakeCard(uuid=f"GPU-{place}") for place in range(3)))
    nvml.broken[1] = pynvml.NVML_ERROR_UNKNOWN
    cards = Nvml(nvml).read().cards
    assert [card.uuid for card in cards] == ["GPU-0", None, "GPU-2"]
    assert cards[1].trouble == "the driver does not answer for it: Unknown Error"


def test_a_card_that_falls_off_the_bus_keeps_its_uuid_and_is_told_as_lost():
    well, lost = FakeCard(uuid="GPU-0"), FakeCard(uuid="GPU-1", fails=pynvml.NVML_ERROR_GPU_IS_LOST)
    nvml = Nvml(FakeNvml(lost, well))
    assert [card.trouble for card in nvml.read().cards] == [LOST, None]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, MISMATCH),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "driver is not loaded"),
    ],
)
def test_a_driver_that_does_not_fit_is_a_warning_and_the_node_goes_on(code: int, words: str):
    nvml = FakeNvml()
    nvml.init = code
    seen = Nvml(nvml).read()
    assert seen.cards == ()
    assert words in (seen.warning or "")


def test_without_the_library_the_other_reader_is_asked():
    nvml = FakeNvml()
    nvml.init = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with pytest.raises(NotFound):
        Nvml(nvml).read()


def test_a_driver_that_was_loaded_again_is_initialised_again(monkeypatch):
    fake = FakeNvml(FakeCard(uuid="GPU-1", gpm={2: 1.0}))
    nvml = Nvml(fake)
    nvml.read()

    def gone() -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    with monkeypatch.context() as patch:
        patch.setattr(fake, "nvmlDeviceGetCount", gone)
        with pytest.raises(Unreadable, match="Uninitialized"):
            nvml.read()
    assert fake.samples == 0
    nvml.read()
    assert fake.inits == 2
