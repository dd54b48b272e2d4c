"""Percentiles of histograms, and what was counted between two readings of one. Pure."""

from llmgw.model.flow import Percentiles
from llmgw.model.gateway import Histogram


def percentiles(histogram: Histogram | None) -> Percentiles | None:
    """Return the percentiles of what a histogram counted; None when it counted nothing."""
    if histogram is None or not histogram.counts or histogram.counts[-1] <= 0:
        return None
    return Percentiles(
        count=histogram.counts[-1],
        p50=quantile(histogram, 0.50),
        p95=quantile(histogram, 0.95),
        p99=quantile(histogram, 0.99),
        bound=histogram.bounds[-1] if histogram.bounds else None,
    )


def quantile(histogram: Histogram, share: float) -> float | None:
    """Return the duration that a share of those counted does not exceed, as Prometheus does.

    With n counted, bounds b and cumulative counts c it lies in the first bucket i with c[i] >= r,
    where r = share * n, and within it where it would if the bucket were filled evenly:

        b[i-1] + (b[i] - b[i-1]) * (r - c[i-1]) / (c[i] - c[i-1]),   b[-1] = c[-1] = 0

    (`histogram_quantile` in Prometheus' documentation). So it is off by at most its bucket.

    Returns:
        The highest bound where it lies beyond that: it is at least so much. None when nothing was
        counted.
    """
    counts = histogram.counts
    rank = share * (counts[-1] if counts else 0)
    low, below = 0.0, 0
    for bound, count in zip(histogram.bounds, counts, strict=False):
        if count >= rank and count > below:
            return low + (bound - low) * (rank - below) / (count - below)
        low, below = bound, count
    return low if rank > below and low else None


def between(after: Histogram | None, before: Histogram | None) -> Histogram | None:
    """Return what was counted between two readings of one histogram, or since it began anew."""
    if after is None or before is None or before.bounds != after.bounds:
        return after
    counts = tuple(new - old for new, old in zip(after.counts, before.counts, strict=True))
    if any(count < 0 for count in counts):
        return after
    if not counts or not counts[-1]:
        return None
    return Histogram(bounds=after.bounds, counts=counts, sum=max(0.0, after.sum - before.sum))
