"""The text that Prometheus scrapes, format 0.0.4: labels, numbers and heads. Pure."""

import math
from collections.abc import Iterable
from functools import lru_cache

from llmgw.model.gateway import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LABEL_MOST = 256
_KEPT_VALUES = 1 << 16

Value = int | float | Histogram | None
"""What a sample says; None: it was not measured, so there is no sample."""


def clean(text: str) -> str:
    """Return a label's value without control characters, bounded, and fit for UTF-8."""
    short = text[:LABEL_MOST]
    if short.isascii() and short.isprintable():
        return short
    shown = "".join(one if one.isprintable() else "?" for one in short)
    return shown.encode("utf-8", "replace").decode()


def shown(value: str) -> str:
    """Return a label's value as it stands between its quotes."""
    # What is kept is as short as a label, however long the text is that it is made of.
    return _shown(value if len(value) <= LABEL_MOST else value[:LABEL_MOST])


@lru_cache(_KEPT_VALUES)
def _shown(value: str) -> str:
    return clean(value).replace("\\", "\\\\").replace('"', '\\"')


def labelled(names: Iterable[str], values: Iterable[str]) -> str:
    """Return labels as they stand between the braces of a sample."""
    return ",".join(f'{name}="{shown(value)}"' for name, value in zip(names, values, strict=True))


def number(value: float) -> str:
    """Return a number as Prometheus reads it."""
    if type(value) is int:
        return str(value)
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def head(name: str, kind: str, words: str) -> str:
    """Return the two lines that stand before a family's samples."""
    escaped = words.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def histogram_lines(name: str, labels: str, seen: Histogram) -> str:
    """Return the lines of one histogram: its buckets, their sum and how many there were."""
    before = f"{labels}," if labels else ""
    bounds = [*(number(float(bound)) for bound in seen.bounds), "+Inf"]
    lines = [
        f'{name}_bucket{{{before}le="{bound}"}} {count}\n'
        for bound, count in zip(bounds, seen.counts, strict=False)
    ]
    count = seen.counts[-1] if seen.counts else 0
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{braces} {number(seen.sum)}\n{name}_count{braces} {count}\n")
    return "".join(lines)
