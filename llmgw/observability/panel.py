"""What a dashboard is made of: rows of panels, each with its queries and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass

TIME = "timeseries"
STAT = "stat"
TABLE = "table"
STATES = "state-timeline"

WIDTH = 24
"""Grafana's grid."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    `legend` is a template of Grafana (`{{node}}`), or, in a table, the title of the value's column.
    """

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A colour from a value on."""

    colour: str
    above: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    `shows` and `empty` become its description: what is seen, and when there is nothing to see.
    `unit` is one of Grafana's; a table's columns may have units of their own, by title. `hidden`
    names a table's columns that say nothing. `base` is the colour below the first of `steps`.
    `total` is the legend of a query that is no part of what is stacked but a line over it.
    """

    title: str
    shows: str
    empty: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = TIME
    width: int = 8
    height: int = 8
    least: float | None = None
    most: float | None = None
    stacked: bool = False
    base: str = "green"
    steps: tuple[Step, ...] = ()
    units: Mapping[str, str] | None = None
    hidden: tuple[str, ...] = ()
    total: str = ""

    @property
    def description(self) -> str:
        """Return what the panel says of itself."""
        return f"{self.shows}\n\nEmpty {self.empty}."


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What a reader of a dashboard chooses: values of a label of a metric."""

    name: str
    selector: str
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; `name` is its file's and part of its uid."""

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Return all panels in their order."""
        return tuple(panel for row in self.rows for panel in row.panels)
