"""NVML's GPU performance monitoring (GPM): how busy the parts of a card were, Hopper and later."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from llmgw_agent.probe.nvml_asking import Asking, done, itself, share

WANTED: Final[Mapping[str, int]] = {
    "sm_active": 2,
    "sm_occupancy": 3,
    "tensor_active": 5,
    "dram_active": 10,
}
"""Fields of a card, and NVML's metrics: NVML_GPM_METRIC_SM_UTIL, _SM_OCCUPANCY, _ANY_TENSOR_UTIL
and _DRAM_BW_UTIL. All are percent over the time between two samples.
"""


class Gpm:
    """One sample a card and reading; the figures are those since the sample before.

    Args:
        asking: NVML.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._able: dict[str, bool] = {}
        self._before: dict[str, object] = {}

    def read(self, handle: object, uuid: str) -> Mapping[str, float]:
        """Return the figures of a card by field; none at the first reading, and none elsewhere."""
        if not self._can(handle, uuid):
            return {}
        now = self._sample(handle)
        before = self._before.pop(uuid, None)
        if now is not None:
            self._before[uuid] = now
        if before is None:
            return {}
        try:
            return {} if now is None else self._figures(before, now)
        finally:
            self._free(before)

    def hold(self, uuids: Collection[str]) -> None:
        """Drop what is known of all other cards: they are not there any more."""
        for gone in self._before.keys() - set(uuids):
            self._free(self._before.pop(gone))
        self._able = {uuid: able for uuid, able in self._able.items() if uuid in uuids}

    def forget(self) -> None:
        """Drop all samples, and what is known of which cards can: the driver was loaded anew."""
        for sample in self._before.values():
            self._free(sample)
        self._before.clear()
        self._able.clear()

    def _can(self, handle: object, uuid: str) -> bool:
        if uuid not in self._able:
            able = self._asking.ask(
                "nvmlGpmQueryDeviceSupport", handle, to=lambda told: bool(told.isSupportedDevice)
            )
            self._able[uuid] = able is True
        return self._able[uuid]

    def _sample(self, handle: object) -> object | None:
        sample: object | None = self._asking.ask("nvmlGpmSampleAlloc", to=itself)
        if sample is None:
            return None
        if self._asking.ask("nvmlGpmSampleGet", handle, sample, to=done) is None:
            self._free(sample)
            return None
        return sample

    def _figures(self, before: object, now: object) -> Mapping[str, float]:
        request = self._asking.ask("c_nvmlGpmMetricsGet_t", to=itself)
        if request is None:
            return {}
        request.version = self._asking.constant("NVML_GPM_METRICS_GET_VERSION")
        request.sample1, request.sample2 = before, now
        request.numMetrics = len(WANTED)
        for place, metric in enumerate(WANTED.values()):
            request.metrics[place].metricId = metric
        if self._asking.ask("nvmlGpmMetricsGet", request, to=done) is None:
            return {}
        return {
            field: figure
            for place, field in enumerate(WANTED)
            if (figure := _figure(request.metrics[place])) is not None
        }

    def _free(self, sample: object) -> None:
        self._asking.ask("nvmlGpmSampleFree", sample, to=done)


def _figure(metric: Any) -> float | None:  # noqa: ANN401 (a struct of the library)
    return share(metric.value) if metric.nvmlReturn == 0 else None
