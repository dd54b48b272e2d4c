"""What a scrape can hold: every metric's name, and the labels it bears."""

from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import HISTOGRAM

TARGET_LABELS = frozenset({"job", "instance"})
"""What Prometheus adds to everything that it scrapes."""

OF_PROMETHEUS = {"up": TARGET_LABELS}
OF_THE_PROCESS = {
    "process_resident_memory_bytes": TARGET_LABELS,
    "process_cpu_seconds_total": TARGET_LABELS,
}


def labels_of_metrics() -> dict[str, frozenset[str]]:
    """Return the labels of every series' name; a histogram has three of them."""
    found: dict[str, frozenset[str]] = {**OF_PROMETHEUS, **OF_THE_PROCESS}
    for family in FAMILIES:
        own = frozenset(family.labels) | TARGET_LABELS
        if family.kind == HISTOGRAM:
            found[f"{family.name}_bucket"] = own | {"le"}
            found[f"{family.name}_sum"] = found[f"{family.name}_count"] = own
        else:
            found[family.name] = own
    return found
