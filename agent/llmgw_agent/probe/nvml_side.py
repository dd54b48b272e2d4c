"""The helper process that asks the NVIDIA driver through its own library, which may hang.

Run as `python -m llmgw_agent.probe.nvml_side`. Each request line, whatever it holds, is answered
with one reading of all cards.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from llmgw.base.errors import NotFound, Unreadable
from llmgw_agent.host.helper_side import serve
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen

T = TypeVar("T")

_MISMATCH = "the NVIDIA driver was updated while the old one is loaded: reboot the machine"
_NOT_LOADED = "the NVIDIA library is there but its driver is not loaded: load or install the driver"


class Nvml:
    """One reading after another through NVML, which is initialised once.

    Args:
        library: the `pynvml` module.
    """

    def __init__(self, library: ModuleType) -> None:
        self._nvml: Any = library
        self._ready = False

    def read(self) -> CardsSeen:
        """Return all cards; a field that the driver does not give is None, that field alone.

        Raises:
            NotFound: the library is not on this machine.
            Unreadable: the driver answers nothing at all.
        """
        nvml = self._nvml
        try:
            if not self._ready:
                nvml.nvmlInit()
                self._ready = True
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self._forget()
            return self._failure(error)
        return CardsSeen(
            cards=tuple(self._card(index) for index in range(count)),
            driver=self._try(nvml.nvmlSystemGetDriverVersion, _text),
            cuda=self._try(nvml.nvmlSystemGetCudaDriverVersion, _cuda),
        )

    def _failure(self, error: Any) -> CardsSeen:  # noqa: ANN401 (a class of the library)
        nvml = self._nvml
        if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise NotFound("the NVIDIA library is not on this machine") from error
        if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            return CardsSeen(warning=_MISMATCH)
        if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return CardsSeen(warning=_NOT_LOADED)
        raise Unreadable(f"NVML: {error}") from error

    def _forget(self) -> None:
        """Initialise anew next time: a driver that was loaded again answers no old handle."""
        if self._ready:
            self._try(self._nvml.nvmlShutdown, str)
        self._ready = False

    def _card(self, index: int) -> Card:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError as error:
            return Card(index=index, trouble=f"the driver does not answer for it: {error}")
        memory, own = self._memory(handle)
        use = self._try(lambda: nvml.nvmlDeviceGetUtilizationRates(handle), _itself)
        return Card(
            index=index,
            uuid=uuid,
            name=self._try(lambda: nvml.nvmlDeviceGetName(handle), _text),
            pci_address=self._try(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId, _text),
            memory_total=None if memory is None else int(memory.total),
            memory_used=None if memory is None else int(memory.used),
            memory_of_its_own=own,
            busy=None if use is None else float(use.gpu),
            bandwidth=None if use is None else float(use.memory),
            temperature=self._try(lambda: nvml.nvmlDeviceGetTemperature(handle, 0), float),
            power=self._try(lambda: nvml.nvmlDeviceGetPowerUsage(handle), _watts),
            power_limit=self._try(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle), _watts),
            sm_clock=self._try(
                lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM), float
            ),
            fan=self._try(lambda: nvml.nvmlDeviceGetFanSpeed(handle), float),
            mig=self._try(lambda: nvml.nvmlDeviceGetMigMode(handle), lambda modes: bool(modes[0])),
            compute_capability=self._try(
                lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle), lambda v: f"{v[0]}.{v[1]}"
            ),
            throttle_bits=self._try(
                lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle), int
            ),
            ecc_corrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            pcie_replays=self._try(lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle), int),
            processes=self._processes(handle),
        )

    def _memory(self, handle: object) -> tuple[Any, bool | None]:
        """Return the memory, and whether the card has some of its own; None: not known."""
        nvml = self._nvml
        try:
            # The newer question counts what the driver reserves apart, as nvidia-smi does.
            return nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2), True
        except nvml.NVMLError as error:
            older = self._try(lambda: nvml.nvmlDeviceGetMemoryInfo(handle), _itself)
            if older is not None:
                return older, True
            return None, False if error.value == nvml.NVML_ERROR_NOT_SUPPORTED else None

    def _ecc(self, handle: object, kind: int) -> int | None:
        nvml = self._nvml
        return self._try(
            lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, kind, nvml.NVML_VOLATILE_ECC), int
        )

    def _processes(self, handle: object) -> tuple[CardProcess, ...] | None:
        nvml = self._nvml
        found: dict[int, CardProcess] = {}
        try:
            listed = [
                *nvml.nvmlDeviceGetComputeRunningProcesses(handle),
                *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
            ]
        except nvml.NVMLError:
            return None
        for process in listed:
            pid, memory = int(process.pid), process.usedGpuMemory
            found[pid] = CardProcess(
                pid=pid,
                name=self._process_name(pid),
                memory_bytes=None if memory is None else int(memory),
            )
        return tuple(found.values())

    def _process_name(self, pid: int) -> str | None:
        return self._try(lambda: self._nvml.nvmlSystemGetProcessName(pid), _text)

    def _try(self, ask: Callable[[], Any], convert: Callable[[Any], T]) -> T | None:
        """Return an answer, or None when this driver or card has none."""
        try:
            return convert(ask())
        except (self._nvml.NVMLError, AttributeError, TypeError, ValueError):
            return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _itself(value: Any) -> Any:  # noqa: ANN401 (a struct of the library)
    return value


def _watts(milliwatts: float) -> float:
    return milliwatts / 1000


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def main() -> None:
    """Answer until standard input ends."""
    cards = Nvml(importlib.import_module("pynvml"))
    serve(lambda _line: cards.read())


if __name__ == "__main__":
    main()
