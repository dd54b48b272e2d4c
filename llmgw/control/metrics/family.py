"""What a family of metrics is: a row of the reference, and where its samples come from."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmgw.control.metrics.onenode import OneNode
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.control.metrics.text import Value

GAUGE = "gauge"
COUNTER = "counter"
HISTOGRAM = "histogram"

ALL = "all"
"""Every control plane exports it."""
LEADER = "leader"
SETTLED = "leader, settled"
"""The leader exports it once its agents have reported: before that a sum would be too low."""

UNSETTLED = "until the known nodes have reported to a new leader"
"""Why such a family is absent, for the reference."""

Samples = Iterable[tuple[str, Value]]
"""Labels as they stand between the braces, and what was measured."""

Figures = Iterable[tuple[str, float | None]]
"""The same of plain numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family.

    A sample whose value is None is left out: what was not measured has none. `absent` says in the
    reference when that is so. `by`: who exports it. `note`: what its reader should know besides.
    """

    name: str
    kind: str = GAUGE
    labels: tuple[str, ...] = ()
    unit: str
    help: str
    absent: str
    by: str = LEADER
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFamily(Family):
    """A family of the whole fleet, or of the control plane itself."""

    read: Callable[[Snapshot, Tally], Samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFamily(Family):
    """A family that every node has its own samples of; they bear the node's name."""

    read: Callable[[OneNode], Figures]
