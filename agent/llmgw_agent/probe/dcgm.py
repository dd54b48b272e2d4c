"""Profiling counters of a dcgm-exporter that runs on the node, where the settings name one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import TimedOut, Unreachable
from llmgw.base.units import counted
from llmgw.base.world import Http
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import Heartbeat, Inventory
from llmgw.model.settings import NodeSettings
from llmgw_agent.host.apart import apart
from llmgw_agent.parse.dcgm import ExporterReading, read_metrics
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source

FIGURES: Final = (
    "sm_active_percent",
    "sm_occupancy_percent",
    "tensor_active_percent",
    "dram_active_percent",
)
"""What is taken of a page: how much of a device works, which NVML tells of newer cards alone."""

_TIMEOUT = 5.0
_PAGE_MOST = 4 << 20
"""Bytes of the exporter's page: 16 cards of 7 instances, with 100 figures each, have two thirds."""


class DcgmProbe(Source):
    """Adds to the cards' readings what the exporter knows and they lack.

    The address is set for the whole cluster, and not every node has cards, or an exporter. Nobody
    is asked where no address is set or there are no cards. That none answers there is no failure
    until one answered under that address since the agent started: then it is missed.
    """

    name = "dcgm"
    period = 10.0
    timeout = 10.0

    def __init__(
        self, http: Http, settings: Callable[[], NodeSettings | None], clock: Clock
    ) -> None:
        self._http = http
        self._settings = settings
        self._devices: tuple[Device, ...] = ()
        self._without_cards = False
        """The last reading asked nobody, for want of cards."""
        self._answered: str | None = None
        """The address under which an exporter answered last."""
        self.readings: Kept[tuple[ExporterReading, ...]] = Kept(clock)

    @property
    def outdated(self) -> bool:
        """Say whether there are cards of which nobody was asked."""
        return self._without_cards and bool(self._devices)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.readings.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add nothing, and note which devices there are: samples name no card and no instance."""
        self._devices = inventory.devices or ()
        return inventory

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the figures that the samples lack."""
        readings = self.readings.fresh
        if not readings or heartbeat.devices is None:
            return heartbeat
        figures = figures_by_device(readings, self._devices)
        samples = tuple(with_figures(one, figures.get(one.uuid)) for one in heartbeat.devices)
        return msgspec.structs.replace(heartbeat, devices=samples)

    async def read(self) -> str:
        """Ask the exporter, where there is one."""
        settings = self._settings()
        url = None if settings is None else settings.dcgm_exporter
        if not url:
            self.readings.put(())
            return "no dcgm-exporter is set"
        self._without_cards = not self._devices
        if not self._devices:
            self.readings.put(())
            return "no cards of which a dcgm-exporter could tell"
        try:
            answer = await self._http.request("GET", url, timeout=_TIMEOUT, most=_PAGE_MOST)
        except (Unreachable, TimedOut):
            if self._answered == url:
                raise
            self.readings.put(())
            return f"no dcgm-exporter answers at {url}"
        if answer.status != 200:
            raise Unreachable(f"{url}: answers {answer.status}")
        readings = await apart(read_metrics, answer.body.decode(errors="replace"))
        self._answered = url
        self.readings.put(readings)
        told = sum(1 for reading in readings if _figures(reading))
        return f"profiling counters of {counted(told, 'device')}"


def figures_by_device(
    readings: Iterable[ExporterReading], devices: Iterable[Device]
) -> Mapping[str, Mapping[str, float]]:
    """Return the figures by the device that they are of.

    An instance's figures are its GPU instance's: where several compute instances share one, they
    are none's. A card's are never an instance's, and the other way round.
    """
    devices = tuple(devices)
    places: dict[tuple[str, int | None], list[str]] = {}
    for device in devices:
        place = (device.card_uuid or device.uuid, device.gpu_instance)
        places.setdefault(place, []).append(device.uuid)
    by_number = {device.number: device.uuid for device in devices if device.card_uuid is None}
    found: dict[str, Mapping[str, float]] = {}
    for reading in readings:
        card = reading.uuid if reading.gpu is None else reading.uuid or by_number.get(reading.gpu)
        uuids = places.get((card, reading.gpu_instance), ()) if card is not None else ()
        if len(uuids) == 1:
            found[uuids[0]] = _figures(reading)
    return found


def with_figures(sample: DeviceSample, figures: Mapping[str, float] | None) -> DeviceSample:
    """Return a sample with the figures that it lacks."""
    lacking = {name: value for name, value in (figures or {}).items() if _lacks(sample, name)}
    return msgspec.structs.replace(sample, **lacking) if lacking else sample


def _lacks(sample: DeviceSample, name: str) -> bool:
    return getattr(sample, name) is None


def _figures(reading: ExporterReading) -> Mapping[str, float]:
    told = ((name, getattr(reading, name)) for name in FIGURES)
    return {name: value for name, value in told if value is not None}
