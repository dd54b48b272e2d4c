"""Who gave way to whom, and nodes that were lost together."""

from llmgw.control.metrics.family import COUNTER, SETTLED, UNSETTLED, FleetFamily, Samples
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.control.metrics.text import shown

NEVER_YET = "for a model of which none did, and " + UNSETTLED


def _evictions(seen: Snapshot, tally: Tally) -> Samples:
    for model, count in sorted(seen.evictions.items()):
        yield f'model="{shown(model)}"', count


def _preemptions(seen: Snapshot, tally: Tally) -> Samples:
    for model, count in sorted(seen.preemptions.items()):
        yield f'model="{shown(model)}"', count


def _lost_together(seen: Snapshot, tally: Tally) -> Samples:
    yield "", seen.lost_together


FAMILIES = (
    FleetFamily(
        name="llmgw_evictions_total",
        kind=COUNTER,
        labels=("model",),
        unit="replicas",
        help="Replicas of a model that had nothing to do and gave way to another model, since the "
        "control plane started.",
        absent=NEVER_YET,
        by=SETTLED,
        read=_evictions,
    ),
    FleetFamily(
        name="llmgw_preemptions_total",
        kind=COUNTER,
        labels=("model",),
        unit="replicas",
        help="Replicas of a model that served and were drained for a model of a higher priority, "
        "since the control plane started.",
        absent=NEVER_YET,
        by=SETTLED,
        read=_preemptions,
    ),
    FleetFamily(
        name="llmgw_mass_loss_nodes",
        unit="nodes",
        help="Nodes that were lost within a few seconds and are still away: taken for a fault of "
        "this control plane or its network, so that nothing is placed anew for them; 0 when there "
        "was no such loss.",
        absent=UNSETTLED,
        by=SETTLED,
        read=_lost_together,
    ),
)
