"""NVML as a library in memory: constants, errors and structs are pynvml's own, the driver is not.

    nvml = FakeNvml(FakeCard(uuid="GPU-a", power=67030), driver="535.54.03")
    Nvml(nvml).read()

What a card is not given it does not support.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml

Call = Callable[..., Any]


@dataclass
class FakeProcess:
    """A process as NVML lists it; `usedGpuMemory` in bytes."""

    pid: int
    usedGpuMemory: int | None = None  # noqa: N815 (NVML's own name)
    gpuInstanceId: int = 0xFFFF_FFFF  # noqa: N815
    computeInstanceId: int = 0xFFFF_FFFF  # noqa: N815


@dataclass
class FakePart:
    """A MIG instance."""

    uuid: str
    name: str
    gpu_instance: int
    compute_instance: int = 0
    multiprocessors: int = 0
    memory: tuple[int, int] | None = None
    """Total and used, in bytes."""
    compute: Sequence[FakeProcess] | None = ()


@dataclass
class FakeLink:
    """One NVLink: whether it is up, what kind of thing it leads to, and where that is."""

    up: bool = True
    kind: int = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
    to: str = ""


@dataclass
class FakeCard:
    """A card's answers, in NVML's units: milliwatts, bytes, MHz. None: it does not support it."""

    uuid: str
    name: str | None = None
    pci_address: str | None = None
    memory: tuple[int, int] | None = None
    utilization: tuple[int, int] | None = None
    temperature: int | None = None
    memory_temperature: int | None = None
    power: int | None = None
    power_limit: int | None = None
    sm_clock: int | None = None
    fan: int | None = None
    mig: bool | None = None
    parts: dict[int, FakePart] = field(default_factory=dict)
    most_parts: int = 7
    capability: tuple[int, int] | None = None
    reasons: int | None = None
    ecc: dict[tuple[int, int], int] = field(default_factory=dict)
    """By error type and counter type."""
    replays: int | None = None
    pci: tuple[int, int, int, int] | None = None
    """The fastest generation of card and slot, the card's own, lanes in use, the card's lanes."""
    remapped: tuple[int, int, int, int] | None = None
    links: dict[int, FakeLink] = field(default_factory=dict)
    compute: Sequence[FakeProcess] | None = ()
    graphics: Sequence[FakeProcess] | None = None
    mps: Sequence[FakeProcess] | None = None
    gpm: dict[int, float] | None = None
    """Metrics by their number."""
    fails: int | None = None
    """The error of every question but its UUID."""


class FakeNvml(ModuleType):
    """The module. `broken` are errors of `nvmlDeviceGetHandleByIndex` by index.

    `init` is the error of `nvmlInit`; `samples` counts GPM samples that were not freed.
    """

    def __init__(
        self, *cards: FakeCard, driver: str | None = None, cuda: int | None = None
    ) -> None:
        super().__init__("pynvml")
        self.cards = list(cards)
        self.driver = driver
        self.cuda = cuda
        self.broken: dict[int, int] = {}
        self.init: int | None = None
        self.names: dict[int, str] = {}
        self.samples = 0
        self.inits = 0
        for name, value in vars(pynvml).items():
            if name.isupper() or name.startswith(("c_nvml", "NVML")) or name == "nvmlMemory_v2":
                setattr(self, name, value)

    # -- the system ------------------------------------------------------------------------

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init is not None:
            raise pynvml.NVMLError(self.init)
        self.inits += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:  # noqa: N802
        if index in self.broken:
            raise pynvml.NVMLError(self.broken[index])
        return self.cards[index]

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return told(self.driver)

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return told(self.cuda)

    def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: N802
        return told(self.names.get(pid))

    # -- cards and instances ---------------------------------------------------------------

    def nvmlDeviceGetUUID(self, handle: FakeCard | FakePart) -> str:  # noqa: N802
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeCard | FakePart) -> str:  # noqa: N802
        return told(handle.name)

    def nvmlDeviceGetMemoryInfo(  # noqa: N802
        self, handle: FakeCard | FakePart, version: int | None = None
    ) -> SimpleNamespace:
        if isinstance(handle, FakePart) and version is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        total, used = of(handle, "memory")
        return SimpleNamespace(total=total, used=used)

    def nvmlDeviceGetComputeRunningProcesses(  # noqa: N802
        self, handle: FakeCard | FakePart
    ) -> Sequence[FakeProcess]:
        return told(of(handle, "compute"))

    def nvmlDeviceGetGraphicsRunningProcesses(  # noqa: N802
        self, handle: FakeCard
    ) -> Sequence[FakeProcess]:
        return told(of(handle, "graphics"))

    def nvmlDeviceGetMPSComputeRunningProcesses(  # noqa: N802
        self, handle: FakeCard
    ) -> Sequence[FakeProcess]:
        return told(of(handle, "mps"))

    def nvmlDeviceGetPciInfo(self, handle: FakeCard) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=of(handle, "pci_address").encode())

    def nvmlDeviceGetUtilizationRates(self, handle: FakeCard) -> SimpleNamespace:  # noqa: N802
        gpu, memory = of(handle, "utilization")
        return SimpleNamespace(gpu=gpu, memory=memory)

    def nvmlDeviceGetTemperature(self, handle: FakeCard, _sensor: int) -> int:  # noqa: N802
        return of(handle, "temperature")

    def nvmlDeviceGetFieldValues(  # noqa: N802
        self, handle: FakeCard, fields: Sequence[int]
    ) -> Sequence[SimpleNamespace]:
        assert list(fields) == [pynvml.NVML_FI_DEV_MEMORY_TEMP]
        heat = handle.memory_temperature
        code = pynvml.NVML_ERROR_NOT_SUPPORTED if heat is None else pynvml.NVML_SUCCESS
        return [SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=heat or 0))]

    def nvmlDeviceGetPowerUsage(self, handle: FakeCard) -> int:  # noqa: N802
        return of(handle, "power")

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeCard) -> int:  # noqa: N802
        return of(handle, "power_limit")

    def nvmlDeviceGetClockInfo(self, handle: FakeCard, kind: int) -> int:  # noqa: N802
        assert kind == pynvml.NVML_CLOCK_SM
        return of(handle, "sm_clock")

    def nvmlDeviceGetFanSpeed(self, handle: FakeCard) -> int:  # noqa: N802
        return of(handle, "fan")

    def nvmlDeviceGetCudaComputeCapability(self, handle: FakeCard) -> tuple[int, int]:  # noqa: N802
        return of(handle, "capability")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: FakeCard) -> int:  # noqa: N802
        return of(handle, "reasons")

    def nvmlDeviceGetTotalEccErrors(self, handle: FakeCard, kind: int, span: int) -> int:  # noqa: N802
        return told(handle.ecc.get((kind, span)))

    def nvmlDeviceGetPcieReplayCounter(self, handle: FakeCard) -> int:  # noqa: N802
        return of(handle, "replays")

    # -- MIG -------------------------------------------------------------------------------

    def nvmlDeviceGetMigMode(self, handle: FakeCard) -> list[int]:  # noqa: N802
        return [int(of(handle, "mig"))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: FakeCard) -> int:  # noqa: N802
        return handle.most_parts

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: FakeCard, index: int) -> FakePart:  # noqa: N802
        if index not in handle.parts:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return handle.parts[index]

    def nvmlDeviceGetGpuInstanceId(self, handle: FakePart) -> int:  # noqa: N802
        return handle.gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, handle: FakePart) -> int:  # noqa: N802
        return handle.compute_instance

    def nvmlDeviceGetAttributes(self, handle: FakePart) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(multiprocessorCount=handle.multiprocessors)

    # -- links and wear --------------------------------------------------------------------

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: FakeCard) -> int:  # noqa: N802
        return int(of(handle, "pci")[0])

    def nvmlDeviceGetGpuMaxPcieLinkGeneration(self, handle: FakeCard) -> int:  # noqa: N802
        return int(of(handle, "pci")[1])

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: FakeCard) -> int:  # noqa: N802
        return int(of(handle, "pci")[2])

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: FakeCard) -> int:  # noqa: N802
        return int(of(handle, "pci")[3])

    def nvmlDeviceGetRemappedRows(self, handle: FakeCard) -> tuple[int, int, int, int]:  # noqa: N802
        return of(handle, "remapped")

    def nvmlDeviceGetNvLinkState(self, handle: FakeCard, link: int) -> int:  # noqa: N802
        return int(told(handle.links.get(link)).up)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: FakeCard, link: int) -> int:  # noqa: N802
        return int(told(handle.links.get(link)).kind)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: FakeCard, link: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=told(handle.links.get(link)).to)

    # -- GPM -------------------------------------------------------------------------------

    def nvmlGpmQueryDeviceSupport(self, handle: FakeCard) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(isSupportedDevice=int(handle.gpm is not None))

    def nvmlGpmSampleAlloc(self) -> Any:  # noqa: N802
        self.samples += 1
        return pynvml.c_nvmlGpmSample_t()

    def nvmlGpmSampleFree(self, _sample: object) -> None:  # noqa: N802
        self.samples -= 1

    def nvmlGpmSampleGet(self, handle: FakeCard, sample: object) -> object:  # noqa: N802
        self._sampled = told(of(handle, "gpm"))
        return sample

    def nvmlGpmMetricsGet(self, request: Any) -> Any:  # noqa: N802
        assert request.version == pynvml.NVML_GPM_METRICS_GET_VERSION
        for place in range(request.numMetrics):
            metric = request.metrics[place]
            known = metric.metricId in self._sampled
            metric.nvmlReturn = 0 if known else pynvml.NVML_ERROR_NOT_SUPPORTED
            metric.value = self._sampled.get(metric.metricId, 0.0)
        return request


def told(value: Any) -> Any:
    """Return what is known; what is not is not supported."""
    if value is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


def of(handle: FakeCard | FakePart, name: str) -> Any:
    """Return an answer of a card or a part of one, or its error."""
    fails = getattr(handle, "fails", None)
    if fails is not None:
        raise pynvml.NVMLError(fails)
    return told(getattr(handle, name, None))
