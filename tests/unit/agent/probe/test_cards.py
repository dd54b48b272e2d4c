"""Cards through either reader: the same records, and no hang or error hides a card."""

from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import pytest

from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen
from llmgw_agent.parse.nvidia_smi import CARD_FIELDS, NEWER_FIELDS
from llmgw_agent.probe.cards import SILENT, CardsProbe
from llmgw_agent.probe.nvml_side import Nvml
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only

MIB = 1 << 20
HEADER = ", ".join((*CARD_FIELDS, *NEWER_FIELDS))
ROW = (
    "0, GPU-1, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 81559, 1234, 97, 40, 55, 612.3, 700.0, "
    "1980, [N/A], 550.54.15, Disabled, 0, 3, 0x0000000000000004, 9.0"
)
CARD = Card(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H100 80GB HBM3",
    pci_address="00000000:18:00.0",
    memory_total=81559 * MIB,
    memory_used=1234 * MIB,
    memory_of_its_own=True,
    busy=97.0,
    bandwidth=40.0,
    temperature=55.0,
    power=612.3,
    power_limit=700.0,
    sm_clock=1980.0,
    mig=False,
    compute_capability="9.0",
    throttle_bits=4,
    ecc_corrected=0,
    ecc_uncorrected=3,
    processes=(CardProcess(pid=77, name="python", memory_bytes=512 * MIB),),
)


def no_library(_request: object) -> NotFound:
    return NotFound("the NVIDIA library is not on this machine")


def smi(*answers: Done | NotFound):
    """Answer nvidia-smi's calls one after the other, the last one for ever."""
    left = list(answers)

    def run(argv: Sequence[str]) -> Done | NotFound:
        assert argv[0] == "nvidia-smi"
        return left.pop(0) if len(left) > 1 else left[0]

    return run


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses(MemoryFiles())


def probe_of(helper: FakeHelper, processes: FakeProcesses, clock: FakeClock, own: set[int]):
    return CardsProbe(helper, processes, lambda: frozenset(own), clock)


async def test_both_readers_give_the_same_records(processes, clock):
    apps = "gpu_uuid, pid, used_gpu_memory [MiB], process_name\nGPU-1, 77, 512, python\n"
    processes.on_run = smi(Done(0, f"{HEADER}\n{ROW}\n", ""), Done(0, apps, ""))
    tool = probe_of(FakeHelper(no_library), processes, clock, set())
    seen = CardsSeen(cards=(CARD,), driver="550.54.15")
    library = probe_of(FakeHelper(lambda _: seen), processes, clock, set())
    await tool.read()
    await library.read()
    assert tool.devices == library.devices
    assert tool.samples == library.samples
    assert tool.seen.last is not None
    assert tool.seen.last.driver == "550.54.15"


async def test_an_engines_own_processes_are_not_foreign_and_others_are(processes, clock):
    processes.add(["llama-server"], {}, pid=70)
    processes.add(["worker"], {}, pid=77, group=70)
    processes.add(["python"], {}, pid=78)
    cards = CardsSeen(cards=(_with(77, 78),))
    own: set[int] = {70}
    probe = probe_of(FakeHelper(lambda _: cards), processes, clock, own)
    await probe.read()
    assert foreign_pids(probe) == [78]
    assert probe.holders(("GPU-1",)) == "python (pid 78) holds 1 B"
    own.clear()
    await probe.read()
    assert foreign_pids(probe) == [77, 78]
    assert probe.holders(("GPU-2",)) is None


async def test_a_machine_without_cards_has_an_empty_list_and_is_asked_seldom(processes, clock):
    processes.on_run = smi(NotFound("nvidia-smi: no such program"))
    helper = FakeHelper(no_library)
    probe = probe_of(helper, processes, clock, set())
    assert probe.devices is None
    assert await probe.read() == "no NVIDIA cards"
    assert probe.devices == ()
    assert probe.samples == ()
    assert probe.period == 60.0
    assert helper.closed
    await probe.read()
    assert len(helper.asked) == 1


async def test_fields_that_an_older_driver_refuses_are_left_out(processes, clock):
    refused = 'Field "compute_cap" is not a valid field to query.\n'
    row = ", ".join(ROW.split(", ")[:-1])
    header = HEADER.removesuffix(", compute_cap")
    answers = (Done(2, refused, ""), Done(0, f"{header}\n{row}\n", ""), Done(0, "", ""))
    processes.on_run = smi(*answers)
    probe = probe_of(FakeHelper(no_library), processes, clock, set())
    await probe.read()
    device = only(probe.devices)
    assert (device.uuid, device.compute_capability) == ("GPU-1", None)
    assert "compute_cap" not in processes.ran[1][1]


async def test_a_driver_that_falls_silent_leaves_its_cards_as_unhealthy(processes, clock):
    helper = FakeHelper(lambda _: CardsSeen(cards=(CARD,)))
    probe = probe_of(helper, processes, clock, set())
    await probe.read()
    helper.answering = silent
    with pytest.raises(TimedOut):
        await probe.read()
    assert probe.samples is not None
    await clock.advance(61)
    device = only(probe.devices)
    assert device.unhealthy == (SILENT,)
    assert probe.samples is None
    assert [warning.words for warning in probe.warnings] == [SILENT]
    helper.answering = lambda _: CardsSeen(cards=(CARD,))
    await probe.read()
    device = only(probe.devices)
    assert device.unhealthy == ()
    assert probe.warnings == ()


async def test_a_card_that_is_lost_is_told_by_its_own_name(processes, clock):
    lost = Card(index=0, trouble="the driver does not answer for it: GPU is lost")
    readings = [CardsSeen(cards=(CARD,)), CardsSeen(cards=(lost,))]
    probe = probe_of(FakeHelper(lambda _: readings.pop(0)), processes, clock, set())
    await probe.read()
    assert await probe.read() == "1 NVIDIA cards, 1 of them broken"
    device = only(probe.devices)
    assert device.uuid == "GPU-1"
    assert device.unhealthy == ("the driver does not answer for it: GPU is lost",)


def _with(*pids: int) -> Card:
    processes = tuple(
        CardProcess(pid=pid, name="python" if pid == 78 else None, memory_bytes=1) for pid in pids
    )
    return Card(index=0, uuid="GPU-1", name="x", processes=processes)


def foreign_pids(probe: CardsProbe) -> list[int]:
    sample = only(probe.samples)
    return [process.pid for process in sample.foreign or ()]


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def library(**functions: object) -> ModuleType:
    """Return a `pynvml` of two cards; what is not given is not supported."""

    def unsupported(*_: object) -> object:
        raise NVMLError(3)

    module = ModuleType("pynvml")
    names = {
        "NVMLError": NVMLError,
        "NVML_ERROR_NOT_SUPPORTED": 3,
        "NVML_ERROR_DRIVER_NOT_LOADED": 9,
        "NVML_ERROR_LIBRARY_NOT_FOUND": 12,
        "NVML_ERROR_LIB_RM_VERSION_MISMATCH": 18,
        "NVML_CLOCK_SM": 1,
        "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "NVML_VOLATILE_ECC": 0,
        "nvmlMemory_v2": 2,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle + 1}",
    }
    asked = (
        *("MemoryInfo", "UtilizationRates", "Name", "PciInfo", "Temperature", "PowerUsage"),
        *("EnforcedPowerLimit", "ClockInfo", "FanSpeed", "MigMode", "CudaComputeCapability"),
        *("CurrentClocksThrottleReasons", "TotalEccErrors", "PcieReplayCounter"),
        *("ComputeRunningProcesses", "GraphicsRunningProcesses"),
    )
    for name in asked:
        names[f"nvmlDeviceGet{name}"] = unsupported
    for name in ("DriverVersion", "CudaDriverVersion", "ProcessName"):
        names[f"nvmlSystemGet{name}"] = unsupported
    for name, value in {**names, **functions}.items():
        setattr(module, name, value)
    return module


def test_a_card_that_supports_nothing_still_has_its_name():
    (card,) = Nvml(library()).read().cards
    assert card == Card(index=0, uuid="GPU-1", memory_of_its_own=False)


def test_readings_come_in_the_records_units():
    module = library(
        nvmlDeviceGetPowerUsage=lambda _: 612300,
        nvmlDeviceGetMemoryInfo=lambda _, version=0: SimpleNamespace(total=80, used=8),
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=97, memory=40),
        nvmlDeviceGetName=lambda _: b"NVIDIA H100",
        nvmlDeviceGetCudaComputeCapability=lambda _: (9, 0),
        nvmlDeviceGetMigMode=lambda _: [0, 0],
        nvmlSystemGetDriverVersion=lambda: "550.54.15",
        nvmlSystemGetCudaDriverVersion=lambda: 12040,
        nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=7, usedGpuMemory=None)],
        nvmlDeviceGetGraphicsRunningProcesses=lambda _: [],
    )
    seen = Nvml(module).read()
    assert (seen.driver, seen.cuda) == ("550.54.15", "12.4")
    (card,) = seen.cards
    assert (card.power, card.busy, card.memory_total, card.memory_used) == (612.3, 97.0, 80, 8)
    assert (card.name, card.compute_capability, card.mig) == ("NVIDIA H100", "9.0", False)
    assert card.memory_of_its_own is True
    assert card.processes == (CardProcess(pid=7),)


def test_one_lost_card_costs_itself_alone():
    def handle(index: int) -> int:
        if index == 1:
            raise NVMLError(15)
        return index

    module = library(nvmlDeviceGetCount=lambda: 3, nvmlDeviceGetHandleByIndex=handle)
    cards = Nvml(module).read().cards
    assert [card.uuid for card in cards] == ["GPU-1", None, "GPU-3"]
    assert cards[1].trouble == "the driver does not answer for it: error 15"


@pytest.mark.parametrize(("value", "words"), [(18, "reboot"), (9, "driver is not loaded")])
def test_a_driver_that_does_not_fit_is_a_warning_and_the_node_goes_on(value, words):
    def init() -> None:
        raise NVMLError(value)

    seen = Nvml(library(nvmlInit=init)).read()
    assert seen.cards == ()
    assert words in (seen.warning or "")


def test_without_the_library_the_other_reader_is_asked():
    def init() -> None:
        raise NVMLError(12)

    with pytest.raises(NotFound):
        Nvml(library(nvmlInit=init)).read()


def test_a_driver_that_was_loaded_again_is_initialised_again():
    calls: list[str] = []
    answers: list[int | NVMLError] = [1, NVMLError(1), 1]

    def count() -> int:
        answer = answers.pop(0)
        if isinstance(answer, NVMLError):
            raise answer
        return answer

    module = library(nvmlInit=lambda: calls.append("init"), nvmlDeviceGetCount=count)
    nvml = Nvml(module)
    nvml.read()
    with pytest.raises(Unreadable, match="error 1"):
        nvml.read()
    nvml.read()
    assert calls == ["init", "init"]
