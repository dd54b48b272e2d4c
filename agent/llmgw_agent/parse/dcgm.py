"""The page of a dcgm-exporter: what DCGM's profiling counters say, in both generations of names.

Release 4.9 of the exporter (with DCGM 4.7) gave its fields the names of DCGM's naming standard and
base units: clocks in hertz instead of MHz, use of a card as a ratio instead of percent, memory in
bytes instead of MiB. Profiling fields are ratios of 0 to 1 under either name. Which fields a page
has is up to its operator. DCGM says that there is no reading by numbers no reading can have
(`dcgm_structs.h`: 2^47 and a little more for fractions, 2^63 less 16 and a little more for whole
numbers), which exporters passed on for years.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.tool import Tool

_BLANK = float(1 << 47)
_MOST_RATIO = 1.05
"""Ratios are computed from two counters, which are not read at the very same time."""

_BLANK_COUNT = (1 << 31) - 16
"""Of 32 bits; that of 64 bits is larger than `_BLANK`."""

_OURS = "DCGM_"
_LINE = re.compile(r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")

_Convert = Callable[[float, str], float | int | None]
"""A number and how it was printed to a reading in our unit."""


class ExporterReading(Record, frozen=True, kw_only=True):
    """What a page says of one card, or of one MIG instance of a card. Percent 0-100."""

    gpu: int | None = None
    """The card's number."""
    uuid: str | None = None
    """The card's, of an instance too."""
    gpu_instance: int | None = None
    """The GPU instance's id; None: these figures are the card's."""
    profile: str | None = None
    """The instance's: `1g.10gb`."""
    sm_active_percent: float | None = None
    sm_occupancy_percent: float | None = None
    tensor_active_percent: float | None = None
    dram_active_percent: float | None = None
    busy_percent: float | None = None
    memory_used_bytes: int | None = None
    sm_clock_mhz: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    xid: int | None = None
    """The last driver error; 0: none since the exporter started."""
    remap_failed: bool | None = None
    remapped_corrected: int | None = None
    """Rows that were remapped after corrected errors."""
    remapped_uncorrected: int | None = None


def read_metrics(text: str) -> tuple[ExporterReading, ...]:
    """Return what the page says, cards and instances each on their own, in its order.

    Raises:
        Unreadable: there is text, and no line of it is a metric of DCGM's.
    """
    found: dict[tuple[str | None, int | None, int | None], ExporterReading] = {}
    metrics = False
    for name, labels, value in _samples(text):
        metrics = metrics or name.startswith(_OURS)
        field = _FIELDS.get(name)
        if field is None:
            continue
        reading = _named(labels)
        key = (reading.uuid, reading.gpu, reading.gpu_instance)
        known = found.setdefault(key, reading)
        converted = _converted(value, field[1])
        if converted is not None:
            found[key] = msgspec.structs.replace(known, **{field[0]: converted})
    if not metrics and text.strip():
        raise Unreadable(
            f"dcgm-exporter: no metric of DCGM in {text.strip().splitlines()[0][:80]!r}"
        )
    return tuple(found.values())


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], str]]:
    for line in lines_of(text):
        if line.startswith("#"):
            continue
        match = _LINE.match(line.strip())
        if match is not None:
            yield match["name"], _labels(match["labels"] or ""), match["value"]


def _labels(text: str) -> Mapping[str, str]:
    return {name: _ESCAPED.sub(r"\1", value) for name, value in _LABEL.findall(text)}


def _named(labels: Mapping[str, str]) -> ExporterReading:
    return ExporterReading(
        gpu=_index(labels.get("gpu")),
        uuid=labels.get("UUID") or labels.get("gpu_uuid") or None,
        gpu_instance=_whole(labels.get("GPU_I_ID")),
        profile=labels.get("GPU_I_PROFILE") or None,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _index(text: str | None) -> int | None:
    return plausible.index(_whole(text))


def _converted(text: str, convert: _Convert) -> float | int | None:
    """Return a value in our unit; None where DCGM says that it has none."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value) or not 0 <= value < _BLANK:
        return None
    return convert(value, text)


def _ratio(value: float, _text: str) -> float | None:
    return plausible.percent(min(100.0, value * 100)) if value <= _MOST_RATIO else None


def _percent(value: float, _text: str) -> float | None:
    return plausible.percent(value)


def _either(value: float, text: str) -> float | None:
    """Return percent of a field that kept its name while its unit changed.

    DCGM 4.6 gave the whole number of percent the name that 4.7 gave the ratio. The exporter prints
    whole numbers without a point and fractions with one.
    """
    return _ratio(value, text) if "." in text else _percent(value, text)


def _watts(value: float, _text: str) -> float | None:
    return plausible.watts(value)


def _celsius(value: float, _text: str) -> float | None:
    return plausible.celsius(value)


def _clock(unit: float) -> _Convert:
    return lambda value, _text: plausible.megahertz(value * unit)


def _memory(unit: int) -> _Convert:
    return lambda value, _text: plausible.memory(value // 1 * unit)


def _count(value: float, _text: str) -> int | None:
    return int(value) if value.is_integer() and value < _BLANK_COUNT else None


def _switch(value: float, _text: str) -> bool | None:
    return bool(value) if value in (0, 1) else None


_FIELDS: Mapping[str, tuple[str, _Convert]] = {
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active_percent", _ratio),
    "DCGM_FI_PROF_SM_UTIL_RATIO": ("sm_active_percent", _ratio),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy_percent", _ratio),
    "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": ("sm_occupancy_percent", _ratio),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_percent", _ratio),
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": ("tensor_active_percent", _ratio),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active_percent", _ratio),
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": ("dram_active_percent", _ratio),
    "DCGM_FI_DEV_GPU_UTIL": ("busy_percent", _percent),
    "DCGM_FI_DEV_GPU_UTIL_RATIO": ("busy_percent", _either),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", _memory(1 << 20)),
    "DCGM_FI_DEV_FB_USED_BYTES": ("memory_used_bytes", _memory(1)),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", _clock(1.0)),
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": ("sm_clock_mhz", _clock(1e-6)),
    "DCGM_FI_DEV_POWER_USAGE": ("power_watts", _watts),
    "DCGM_FI_DEV_BOARD_POWER_WATTS": ("power_watts", _watts),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_celsius", _celsius),
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": ("temperature_celsius", _celsius),
    "DCGM_FI_DEV_MEMORY_TEMP": ("memory_temperature_celsius", _celsius),
    "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS": ("memory_temperature_celsius", _celsius),
    "DCGM_FI_DEV_XID_ERRORS": ("xid", _count),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("remap_failed", _switch),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("remapped_corrected", _count),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remapped_uncorrected", _count),
}
"""Our field and its unit by the exporter's name, the one before 4.9 first."""

TOOLS = (
    Tool(name="dcgm-exporter", how="curl -s http://127.0.0.1:9400/metrics", read=read_metrics),
)
