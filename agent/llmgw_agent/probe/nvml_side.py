"""The helper process that asks the NVIDIA driver through its own library, which may hang.

Run as `python -m llmgw_agent.probe.nvml_side`. Each request line names a part of what the cards
tell and is answered with one reading of it, of all cards.
"""

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import msgspec

from llmgw.base.errors import NotFound, Unreadable
from llmgw_agent.host.helper_side import serve
from llmgw_agent.parse import plausible
from llmgw_agent.parse.card_bounds import left_out
from llmgw_agent.parse.cards import Card, CardsSeen, measured_clock, measured_heat
from llmgw_agent.parse.nvidia_smi_errors import MISMATCH
from llmgw_agent.probe import nvml_links, nvml_use
from llmgw_agent.probe.card_request import CARDS, LINKS, USE, ReadCards
from llmgw_agent.probe.nvml_asking import Asking, count, done, errors, fan, share, text, watts
from llmgw_agent.probe.nvml_gpm import Gpm

_NOT_LOADED = "the NVIDIA library is there but its driver is not loaded: load or install the driver"

_HEAT = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
"""What newer drivers want to be asked, and what older ones know."""


class Nvml:
    """One reading after another through NVML, which is initialised once.

    Args:
        library: the `pynvml` module.
    """

    def __init__(self, library: ModuleType) -> None:
        self._nvml: Any = library
        self._asking = Asking(library)
        self._gpm = Gpm(self._asking)
        self._links: dict[str, nvml_links.Links] = {}
        self._ready = False
        self._parts: Mapping[str, Callable[[Card, object], Card]] = {
            CARDS: self._whole,
            USE: self._use,
            LINKS: self._linked,
        }

    def read(self, part: str = CARDS) -> CardsSeen:
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
            found = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self._forget()
            return self._failure(error)
        tell = self._parts.get(part, self._whole)
        self._links.clear()
        listed = min(found, plausible.MOST_CARDS)
        cards = tuple(self._card(index, tell) for index in range(listed))
        self._gpm.hold({card.uuid for card in cards if card.uuid is not None})
        return CardsSeen(
            cards=nvml_links.with_peers(cards, self._links),
            driver=self._asking.ask("nvmlSystemGetDriverVersion", to=text),
            cuda=self._asking.ask("nvmlSystemGetCudaDriverVersion", to=_cuda),
            trouble=None if listed == found else left_out("cards", found, listed),
        )

    def _failure(self, error: Any) -> CardsSeen:  # noqa: ANN401 (a class of the library)
        nvml = self._nvml
        if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise NotFound("the NVIDIA library is not on this machine") from error
        if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            return CardsSeen(warning=MISMATCH)
        if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return CardsSeen(warning=_NOT_LOADED)
        raise Unreadable(f"NVML: {error}") from error

    def _forget(self) -> None:
        """Initialise anew next time: a driver that was loaded again answers no old handle."""
        if self._ready:
            self._gpm.forget()
            self._asking.ask("nvmlShutdown", to=done)
        self._ready = False

    def _card(self, index: int, tell: Callable[[Card, object], Card]) -> Card:
        """Return one card; one that the driver does not answer for costs itself alone."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text(nvml.nvmlDeviceGetUUID(handle))
        except (nvml.NVMLError, ValueError) as error:
            return Card(index=index, trouble=f"the driver does not answer for it: {error}")
        self._asking.trouble = None
        address = self._asking.ask("nvmlDeviceGetPciInfo", handle, to=lambda info: text(info.busId))
        card = tell(Card(index=index, uuid=uuid, pci_address=address), handle)
        return msgspec.structs.replace(card, trouble=self._asking.trouble)

    def _with_memory(self, card: Card, handle: object, *, used: bool = False) -> Card:
        held, own = nvml_use.memory(self._asking, handle)
        mig = nvml_use.is_mig(self._asking, handle)
        return msgspec.structs.replace(
            card,
            memory_total=None if held is None else plausible.memory(int(held.total)),
            memory_used=None if held is None else plausible.memory(int(held.used)),
            memory_of_its_own=own,
            mig=mig,
            instances=nvml_use.instances(self._asking, handle, used=used) if mig else None,
        )

    def _use(self, card: Card, handle: object) -> Card:
        return msgspec.structs.replace(
            self._with_memory(card, handle, used=True),
            processes=nvml_use.processes(self._asking, handle),
        )

    def _whole(self, card: Card, handle: object) -> Card:
        nvml, ask = self._nvml, self._asking.ask
        card = msgspec.structs.replace(
            self._with_memory(card, handle),
            name=ask("nvmlDeviceGetName", handle, to=text),
            temperature=measured_heat(
                self._asking.first(_HEAT, handle, nvml.NVML_TEMPERATURE_GPU, to=float)
            ),
            memory_temperature=measured_heat(
                ask("nvmlDeviceGetFieldValues", handle, [nvml.NVML_FI_DEV_MEMORY_TEMP], to=_field)
            ),
            power=ask("nvmlDeviceGetPowerUsage", handle, to=watts),
            power_limit=ask("nvmlDeviceGetEnforcedPowerLimit", handle, to=watts),
            sm_clock=measured_clock(
                ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM, to=float)
            ),
            fan=ask("nvmlDeviceGetFanSpeed", handle, to=fan),
            compute_capability=ask("nvmlDeviceGetCudaComputeCapability", handle, to=_capability),
            throttle_bits=self._asking.first(_REASONS, handle, to=int),
            ecc_corrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            pcie_replays=ask("nvmlDeviceGetPcieReplayCounter", handle, to=count),
        )
        return card if card.mig else self._with_work(card, handle)

    def _with_work(self, card: Card, handle: object) -> Card:
        """Return a card that is no set of instances with how much it worked."""
        use = self._asking.ask("nvmlDeviceGetUtilizationRates", handle, to=_rates)
        busy, bandwidth = (None, None) if use is None else use
        figures = {} if card.uuid is None else self._gpm.read(handle, card.uuid)
        return msgspec.structs.replace(card, busy=busy, bandwidth=bandwidth, **figures)

    def _ecc(self, handle: object, kind: int) -> int | None:
        return self._asking.ask(
            "nvmlDeviceGetTotalEccErrors", handle, kind, self._nvml.NVML_VOLATILE_ECC, to=errors
        )

    def _linked(self, card: Card, handle: object) -> Card:
        links = nvml_links.nvlinks(self._asking, handle)
        if links is not None and card.uuid is not None:
            self._links[card.uuid] = links
        return msgspec.structs.replace(
            card,
            pci=nvml_links.pci_link(self._asking, handle),
            health=None
            if card.uuid is None
            else nvml_links.health(self._asking, handle, card.uuid),
        )


def _rates(told: Any) -> tuple[float | None, float | None]:  # noqa: ANN401 (a struct of the library)
    return share(told.gpu), share(told.memory)


def _field(told: Any) -> float:  # noqa: ANN401 (structs of the library)
    """Return the one field that was asked for.

    Raises:
        ValueError: it is not told.
    """
    (one,) = told
    if one.nvmlReturn != 0:
        raise ValueError(f"not told: {one.nvmlReturn}")
    return float(one.value.uiVal)


def _capability(numbers: tuple[int, int]) -> str:
    return f"{numbers[0]}.{numbers[1]}"


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def main() -> None:
    """Answer until standard input ends."""
    cards = Nvml(importlib.import_module("pynvml"))
    serve(lambda line: cards.read(msgspec.json.decode(line, type=ReadCards).part))


if __name__ == "__main__":
    main()
