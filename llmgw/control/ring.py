"""Rings of readings in two bytes each: half floats, of which NaN says that nothing was measured.

A half float (IEEE 754 binary16) has eleven significant bits, one part in two thousand of any value
up to 65,504: finer than a chart shows. Bytes are kept in GiB to fit.
"""

import math
import struct

from llmgw.model.history import BYTES, Values

_ONE = struct.Struct("<e")
_GAP = _ONE.pack(math.nan)
_MOST = 65504.0
"""The largest half float; what is more is kept as that."""
_SCALES = {BYTES: float(1 << 30)}


def empty(length: int) -> bytearray:
    """Return a ring of that many readings in which nothing was measured."""
    return bytearray(_GAP * length)


def put(ring: bytearray, tick: int, value: float | None, unit: str) -> None:
    """Keep the reading of a tick over the one that is a whole ring older."""
    at = tick * 2 % len(ring)
    if value is None or not math.isfinite(value):
        ring[at : at + 2] = _GAP
    else:
        scaled = value / _SCALES.get(unit, 1.0)
        _ONE.pack_into(ring, at, max(-_MOST, min(_MOST, scaled)))


def read(ring: bytearray, tick: int, unit: str) -> Values:
    """Return all readings, oldest first, that of `tick` last."""
    length = len(ring) // 2
    found = struct.unpack(f"<{length}e", ring)
    start = (tick + 1) % length
    scale = _SCALES.get(unit)
    return tuple(
        None if math.isnan(value) else _shown(value, scale)
        for value in (*found[start:], *found[:start])
    )


def _shown(value: float, scale: float | None) -> float:
    """Return a reading without digits that were never measured."""
    return round(value, 2) if scale is None else round(value * scale)
