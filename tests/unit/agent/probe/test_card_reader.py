"""Asking for cards: both readers give the same records, and what one driver lacks costs itself."""

from pathlib import Path

import msgspec
import pynvml
import pytest

from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw.model.record import Record
from llmgw_agent.parse.card_devices import devices, samples
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen
from llmgw_agent.parse.nvidia_smi_errors import MISMATCH
from llmgw_agent.probe.card_reader import CardReader
from llmgw_agent.probe.card_request import CARDS, LINKS, USE, ReadCards
from llmgw_agent.probe.nvml_side import Nvml
from tests.fakes.cards import OTHER, UUID, FakeSmi, h100, no_library
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.fakes.nvml import FakeCard, FakeNvml, FakePart, FakeProcess
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures"
MIB = 1 << 20
REPORT = (FIXTURES / "nvidia-smi-q-x" / "a100-80g-mig-4x1g20gb.xml").read_text()
LISTED = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {UUID})\n" + "".join(
    f"  MIG 1g.20gb     Device  {index}: (UUID: MIG-00000000-0000-5000-8000-00000000010{index})\n"
    for index in range(4)
)

A100 = {
    "index": "0",
    "uuid": UUID,
    "name": "NVIDIA A100-SXM4-80GB",
    "pci.bus_id": "00000000:01:00.0",
    "memory.total": "81920",
    "memory.used": "50",
    "temperature.gpu": "27",
    "temperature.memory": "44",
    "power.draw": "67.03",
    "enforced.power.limit": "500.00",
    "clocks.sm": "1275",
    "driver_version": "535.54.03",
    "mig.mode.current": "Enabled",
    "ecc.errors.corrected.volatile.total": "0",
    "ecc.errors.uncorrected.volatile.total": "0",
    "clocks_throttle_reasons.active": "0x0000000000000000",
    "compute_cap": "8.0",
    "pcie.link.gen.max": "4",
    "pcie.link.gen.gpumax": "4",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
}
"""The values of the recorded report, as the query prints them; what is not there is [N/A]."""

NO_ERRORS = {
    (kind, span): 0
    for kind in (0, 1)
    for span in (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
}


def nvml_of_the_report() -> Nvml:
    """The same card, as NVML answers: values typed from the report."""
    parts = {
        index: FakePart(
            uuid=f"MIG-00000000-0000-5000-8000-00000000010{index}",
            name="NVIDIA A100-SXM4-80GB MIG 1g.20gb",
            gpu_instance=3 + index,  # <gpu_instance_id>3</gpu_instance_id> to 6
            compute_instance=0,  # <compute_instance_id>0</compute_instance_id>
            multiprocessors=14,  # <multiprocessor_count>14</multiprocessor_count>
            memory=(19968 * MIB, 12 * MIB),  # <total>19968 MiB</total> <used>12 MiB</used>
        )
        for index in range(4)
    }
    card = FakeCard(
        uuid=UUID,
        name="NVIDIA A100-SXM4-80GB",  # <product_name>NVIDIA A100-SXM4-80GB</product_name>
        pci_address="00000000:01:00.0",  # <pci_bus_id>00000000:01:00.0</pci_bus_id>
        memory=(81920 * MIB, 50 * MIB),  # <total>81920 MiB</total> <used>50 MiB</used>
        temperature=27,  # <gpu_temp>27 C</gpu_temp>
        memory_temperature=44,  # <memory_temp>44 C</memory_temp>
        power=67_030,  # <power_draw>67.03 W</power_draw>
        power_limit=500_000,  # <current_power_limit>500.00 W</current_power_limit>
        sm_clock=1275,  # <sm_clock>1275 MHz</sm_clock>
        mig=True,  # <current_mig>Enabled</current_mig>
        parts=parts,
        capability=(8, 0),
        reasons=0,  # every <clocks_event_reason_…>Not Active</…>
        ecc=NO_ERRORS,  # <volatile> and <aggregate>: 0 each
        pci=(4, 4, 16, 16),  # <max_link_gen>4</…> <max_device_link_gen>4</…> 16x of 16x
    )
    return Nvml(FakeNvml(card, driver="535.54.03", cuda=12020))


def through_library(nvml: Nvml) -> FakeHelper:
    def answer(request: Record) -> CardsSeen:
        assert isinstance(request, ReadCards)
        return nvml.read(request.part)

    return FakeHelper(answer)


@pytest.fixture
def smi() -> FakeSmi:
    return FakeSmi(A100, texts={"-q -x": REPORT, "-L": LISTED})


@pytest.fixture
def reader(smi, clock) -> CardReader:
    """A reader on a machine without NVML."""
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = smi
    return CardReader(FakeHelper(no_library), processes, clock)


async def test_both_readers_give_the_same_records(reader, clock):
    processes = FakeProcesses(MemoryFiles())
    library = CardReader(through_library(nvml_of_the_report()), processes, clock)
    for part, own in ((CARDS, None), (USE, frozenset[int]())):
        by_tool, by_library = await reader.read(part), await library.read(part)
        if part == CARDS:
            assert devices(by_tool.cards) == devices(by_library.cards)
            assert by_tool.driver == by_library.driver == "535.54.03"
            assert by_tool.cuda == by_library.cuda == "12.2"
        told = samples(by_tool.cards, own, 1.0)
        assert told == samples(by_library.cards, own, 1.0)
        assert len(told) == 5
    by_tool, by_library = await reader.read(LINKS), await library.read(LINKS)
    assert [card.pci for card in by_tool.cards] == [card.pci for card in by_library.cards]
    assert processes.ran == []


async def test_a_card_with_processes_is_the_same_but_for_those_that_only_draw(reader, smi, clock):
    """Values of t4-515.xml, which the lines beside them are from."""
    uuid = "GPU-3f9fbca7-d3ff-c4d4-52a7-8e1d6ee28fdb"
    smi.cards = [
        {
            "index": "0",
            "uuid": uuid,
            "name": "Tesla T4",
            "pci.bus_id": "00000000:00:1E.0",
            "memory.total": "15360",
            "memory.used": "1032",
            "utilization.gpu": "0",
            "utilization.memory": "0",
            "power.draw": "26.78",
        }
    ]
    smi.apps = [f"{uuid}, 5762, 1005, python"]
    card = FakeCard(
        uuid=uuid,
        name="Tesla T4",
        pci_address="00000000:00:1E.0",
        memory=(15360 * MIB, 1032 * MIB),  # <total>15360 MiB</total> <used>1032 MiB</used>
        utilization=(0, 0),  # <gpu_util>0 %</gpu_util> <memory_util>0 %</memory_util>
        power=26_780,  # <power_draw>26.78 W</power_draw>
        compute=(FakeProcess(5762, 1005 * MIB),),  # <pid>5762</pid> <type>C</type> 1005 MiB
        graphics=(FakeProcess(675, 22 * MIB),),  # <pid>675</pid> <type>G</type> 22 MiB
    )
    nvml = FakeNvml(card)
    nvml.names = {5762: "python", 675: "/usr/lib/xorg/Xorg"}
    library = CardReader(through_library(Nvml(nvml)), FakeProcesses(MemoryFiles()), clock)
    assert (await reader.read(CARDS)).cards == (await library.read(CARDS)).cards
    tool, whole = only((await reader.read(USE)).cards), only((await library.read(USE)).cards)
    assert tool.memory_used == whole.memory_used == 1032 * MIB
    xorg = CardProcess(pid=675, name="/usr/lib/xorg/Xorg", memory_bytes=22 * MIB, kind="G")
    assert (*(tool.processes or ()), xorg) == whole.processes


async def test_an_older_driver_is_asked_for_what_it_knows(reader, smi):
    smi.cards = [h100()]
    smi.unknown = {"compute_cap", "temperature.memory"}
    smi.texts["--help-query-gpu"] = (
        "\n".join(
            f'"{field}"' for field in (*A100, "fan.speed", "utilization.gpu", "utilization.memory")
        )
        .replace('"compute_cap"', "")
        .replace('"temperature.memory"', "")
    )
    card = only((await reader.read(CARDS)).cards)
    assert (card.uuid, card.compute_capability, card.power) == (UUID, None, 612.3)
    queries = [asked for asked in smi.asked if asked.startswith("--query-gpu=")]
    assert len(queries) == 2, "the list of fields tells all that it does not know at once"
    await reader.read(CARDS)
    assert smi.asked[-1] == queries[-1]


async def test_a_driver_that_lists_no_fields_is_asked_for_one_less_each_time(reader, smi):
    smi.cards = [h100()]
    smi.unknown = {"compute_cap", "temperature.memory"}
    assert only((await reader.read(CARDS)).cards).power == 612.3
    assert len([asked for asked in smi.asked if asked.startswith("--query-gpu=")]) == 3


async def test_a_field_that_a_newer_driver_renamed_is_asked_for_by_its_new_name(reader, smi):
    smi.cards = [h100(clocks_event_reasons__active="0x4")]
    smi.unknown = {"clocks_throttle_reasons.active"}
    known = (*h100(), "clocks_event_reasons.active")
    smi.texts["--help-query-gpu"] = "\n".join(f'"{field}"' for field in known)
    assert only((await reader.read(CARDS)).cards).throttle_bits == 4


async def test_pcie_is_asked_apart_and_a_driver_that_knows_less_tells_less(reader, smi):
    smi.cards = [h100()]
    smi.unknown = {"pcie.link.gen.gpumax", "pcie.link.gen.hostmax"}
    smi.texts[""] = (FIXTURES / "nvidia-smi-table" / "1x-a10-550.txt").read_text()
    seen = await reader.read(LINKS)
    pci = only(seen.cards).pci
    assert pci is not None
    assert (pci.max_generation, pci.card_generation, pci.lanes) == (5, None, 16)
    assert seen.cuda == "12.4"
    assert not any("pcie" in asked for asked in await asked_for(reader, smi, CARDS))


async def test_a_table_that_is_not_printed_costs_the_cuda_version_and_it_says_so(reader, smi):
    smi.cards = [h100()]
    seen = await reader.read(LINKS)
    assert only(seen.cards).pci is not None
    assert seen.cuda is None
    assert (seen.trouble or "").startswith("CUDA version: ")


async def asked_for(reader: CardReader, smi: FakeSmi, part: str) -> list[str]:
    smi.asked.clear()
    await reader.read(part)
    return list(smi.asked)


async def test_processes_are_told_by_card(reader, smi):
    smi.cards = [h100(), h100(1, OTHER)]
    smi.apps = [f"{OTHER}, 77, 512, python"]
    seen = await reader.read(USE)
    python = CardProcess(pid=77, name="python", memory_bytes=512 * MIB, kind="C")
    assert [card.processes for card in seen.cards] == [(), (python,)]
    assert [card.memory_used for card in seen.cards] == [1234 * MIB] * 2


async def test_processes_that_can_not_be_asked_for_are_not_taken_for_none(reader, smi):
    smi.cards = [h100()]
    smi.faults["--query-compute-apps"] = Done(3, "Insufficient Permissions", "")
    with pytest.raises(Unreadable, match="Insufficient Permissions"):
        await reader.read(USE)


NAMES = [f"MIG-00000000-0000-5000-8000-00000000010{index}" for index in range(4)]


def named(seen: CardsSeen) -> list[str | None] | None:
    instances = only(seen.cards).instances
    return None if instances is None else [one.uuid for one in instances]


async def test_the_same_instances_keep_their_names_while_the_list_fails_and_it_says_so(reader, smi):
    await reader.read(CARDS)
    smi.faults["-L"] = TimedOut("nvidia-smi: no end")
    seen = await reader.read(CARDS)
    assert (named(seen), seen.trouble) == (NAMES, "nvidia-smi -L: nvidia-smi: no end")
    assert named(await reader.read(USE)) == NAMES


async def test_a_list_alone_names_the_instances_and_what_was_known_of_them_stays(reader, smi):
    await reader.read(CARDS)
    smi.faults["-q"] = Unreadable("no report")
    seen = await reader.read(CARDS)
    assert (named(seen), seen.trouble) == (NAMES, "nvidia-smi -q -x: no report")
    assert [one.gpu_instance for one in only(seen.cards).instances or ()] == [3, 4, 5, 6]
    del smi.faults["-q"]
    assert named(await reader.read(USE)) == NAMES


async def test_instances_that_neither_tool_tells_of_are_not_repeated(reader, smi):
    await reader.read(CARDS)
    smi.faults = {"-L": TimedOut("nvidia-smi: no end"), "-q": Unreadable("no report")}
    seen = await reader.read(CARDS)
    assert named(seen) is None
    assert seen.trouble == "nvidia-smi -q -x: no report; nvidia-smi -L: nvidia-smi: no end"


@pytest.mark.parametrize("part", [CARDS, USE])
async def test_a_card_that_is_carved_anew_while_the_list_fails_has_no_instance_of_an_old_name(
    reader, smi, part
):
    await reader.read(CARDS)
    smi.faults["-L"] = TimedOut("nvidia-smi: no end")
    # Ids 3 to 6 become 7, 8, 9 and 10: four others in the same places.
    for before, after in ((3, 7), (4, 8), (5, 9), (6, 10)):
        smi.texts["-q -x"] = smi.texts["-q -x"].replace(
            f"<gpu_instance_id>{before}<", f"<gpu_instance_id>{after}<"
        )
    assert named(await reader.read(part)) == [None] * 4


@pytest.mark.parametrize(
    "listed",
    [
        LISTED.rpartition("  MIG")[0],
        LISTED.replace("MIG 1g.20gb ", "MIG 1g.10gb "),
        LISTED.replace("MIG-00000000-0000-5000-8000-000000000103", f"MIG-{UUID}/9/0"),
    ],
    ids=["one less", "other profiles", "another id"],
)
async def test_a_list_of_another_carving_than_the_report_names_nothing(reader, smi, listed):
    smi.texts["-L"] = listed
    seen = await reader.read(CARDS)
    assert named(seen) == [None] * 4
    assert seen.trouble == "GPU 0: nvidia-smi -L and -q -x tell of different instances"


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (Done(9, "Failed to initialize NVML: Driver/library version mismatch\n", ""), MISMATCH),
        (Done(6, "No devices were found\n", ""), None),
    ],
)
async def test_what_the_tool_says_instead_of_cards(reader, smi, answer, seen):
    smi.faults["--query-gpu"] = answer
    assert await reader.read(CARDS) == CardsSeen(warning=seen)


async def test_a_lost_card_does_not_hide_the_others(reader, smi):
    good = smi(["nvidia-smi", "--query-gpu=index,uuid,name"])
    lost = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
    smi.faults["--query-gpu"] = Done(15, lost + good.out, "")
    first, second = (await reader.read(CARDS)).cards
    assert (first.uuid, second.pci_address) == (UUID, "0000:34:00.0")


async def test_neither_library_nor_tool_is_told_as_not_found(clock):
    processes = FakeProcesses(MemoryFiles())
    processes.on_run = lambda argv: NotFound("nvidia-smi: no such program")
    helper = FakeHelper(no_library)
    reader = CardReader(helper, processes, clock)
    for _ in range(2):
        with pytest.raises(NotFound):
            await reader.read(CARDS)
    assert helper.closed
    assert len(helper.asked) == 1, "the library is looked for once"


async def test_a_library_that_hangs_is_not_replaced_by_the_tool(clock):
    processes = FakeProcesses(MemoryFiles())
    reader = CardReader(FakeHelper(silent), processes, clock)
    with pytest.raises(TimedOut):
        await reader.read(CARDS)
    assert processes.ran == []


def test_a_request_names_its_part_on_the_wire():
    line = msgspec.json.encode(ReadCards(part=USE))
    assert msgspec.json.decode(line, type=ReadCards).part == USE
    assert msgspec.json.decode(b"{}", type=ReadCards).part == CARDS
    seen = CardsSeen(cards=(Card(uuid=UUID),))
    assert msgspec.json.decode(msgspec.json.encode(seen), type=CardsSeen) == seen


class Naming:
    """A tool that tells processes and their names as they are asked for, names as they are."""

    def __init__(self, smi: FakeSmi, names: dict[int, str]) -> None:
        self.smi, self.names = smi, names
        self.refuses_names = False

    def __call__(self, argv):
        question = argv[1]
        if not question.startswith("--query-compute-apps="):
            return self.smi(argv)
        self.smi.asked.append(question)
        fields = question.partition("=")[2].split(",")
        if "process_name" in fields and self.refuses_names:
            return Done(2, "Insufficient Permissions", "")
        rows = [
            {"gpu_uuid": UUID, "pid": str(pid), "used_memory": "100", "process_name": name}
            for pid, name in self.names.items()
        ]
        lines = [", ".join(fields), *(", ".join(row[field] for field in fields) for row in rows)]
        return Done(0, "\n".join([*lines, ""]), "")


def naming(names: dict[int, str]) -> tuple[Naming, CardReader, FakeClock]:
    tool = Naming(FakeSmi(h100()), names)
    processes, clock = FakeProcesses(MemoryFiles()), FakeClock()
    processes.on_run = tool
    return tool, CardReader(FakeHelper(no_library), processes, clock), clock


async def holders(reader: CardReader) -> dict[int, str | None]:
    (card,) = (await reader.read(USE)).cards
    return {process.pid: process.name for process in card.processes or ()}


async def test_a_name_with_line_ends_is_no_row_of_another_process():
    forged = f"x\n{UUID}, 1, 80000, init\n1, init"
    tool, reader, _ = naming({77: forged, 78: "python, -m vllm"})
    assert await holders(reader) == {77: "x", 78: "python, -m vllm"}
    tool.names = {77: forged}
    assert await holders(reader) == {77: "x"}


async def test_names_are_asked_for_when_there_is_a_new_process_and_cost_themselves_alone():
    tool, reader, _ = naming({77: "python"})
    asked = "--query-compute-apps=pid,process_name"
    for _ in range(3):
        assert await holders(reader) == {77: "python"}
    assert tool.smi.asked.count(asked) == 1
    tool.refuses_names = True
    tool.names[78] = "later"
    assert await holders(reader) == {77: "python", 78: None}
