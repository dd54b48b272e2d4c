"""What a family of metrics is, and how its samples are made fit to be scraped. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.gateway import Histogram

GAUGE = "gauge"
COUNTER = "counter"
HISTOGRAM = "histogram"

LABEL_MOST = 256

Labels = tuple[str, ...]
Value = float | Histogram | None
Samples = Iterable[tuple[Labels, Value]]


@dataclass(frozen=True, slots=True)
class Family:
    """One family: a row of the reference, and where its samples come from.

    `read` may yield None for a value: what was not measured has no sample. `absent` says in the
    reference when that is so. `always`: a standby exports it too.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    help: str
    absent: str
    read: Callable[[Snapshot], Samples]
    always: bool = False


def collected(family: Family, seen: Snapshot) -> Metric:
    """Return a family with all its samples.

    Control characters in labels are replaced. Of two samples that have the same labels then, the
    first stays: Prometheus refuses a whole scrape for one that is there twice.
    """
    samples = _distinct(family.read(seen))
    match family.kind:
        case "counter":
            counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in samples:
                counter.add_metric(labels, _number(value))
            return counter
        case "histogram":
            histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in samples:
                if isinstance(value, Histogram):
                    histogram.add_metric(labels, _buckets(value), value.sum)
            return histogram
        case _:
            gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in samples:
                gauge.add_metric(labels, _number(value))
            return gauge


def clean(text: str) -> str:
    """Return a label's value without control characters, bounded, and fit for UTF-8."""
    short = text[:LABEL_MOST]
    if short.isascii() and short.isprintable():
        return short
    shown = "".join(one if one.isprintable() else "?" for one in short)
    return shown.encode("utf-8", "replace").decode()


def _distinct(samples: Samples) -> Iterator[tuple[Labels, float | Histogram]]:
    seen: set[Labels] = set()
    for labels, value in samples:
        cleaned = tuple(clean(label) for label in labels)
        if value is not None and cleaned not in seen:
            seen.add(cleaned)
            yield cleaned, value


def _number(value: float | Histogram) -> float:
    if isinstance(value, Histogram):
        raise TypeError("a histogram in a family of plain numbers")
    return float(value)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(repr(float(bound)) for bound in histogram.bounds), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, histogram.counts, strict=False)]
