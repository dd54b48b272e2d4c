"""What the steps of a serving job are decided from, and what they ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.model.catalog import (
    CatalogEntry,
    HubSource,
    MirrorSource,
    Model,
    PackageSource,
    PathSource,
    UrlSource,
)
from llmgw.model.commands import WeightsState
from llmgw.model.jobs import JobStep
from llmgw.model.record import Record
from llmgw.model.replica import Replica
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.records import Candidate, Refusal, StartFailure, Want

PLAN = "plan"
CHECK = "check source"
FETCH = "fetch"
CATALOG = "catalog"
PLACE = "place"
READY = "ready"
STEPS = (PLAN, CHECK, FETCH, CATALOG, PLACE, READY)
"""In the order in which they are done: what can't be had never reaches the catalog."""


@dataclass(frozen=True, slots=True)
class CannotFetch:
    """A node whose agent does not fetch on request: the start of a replica there does."""

    words: str


@dataclass(frozen=True, slots=True)
class Silent:
    """A node that did not answer. `gone`: it is not one to wait for."""

    words: str
    gone: bool = False


Answer = WeightsState | CannotFetch | Silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The fleet as a serving job looks at it, and what came of its last orders."""

    settled: bool = True
    """What runs is known; `waiting_for`: nodes that have not said yet."""
    waiting_for: tuple[str, ...] = ()
    stopped: bool = False
    entry: CatalogEntry | None = None
    """Of the job's model; None: the catalog has none of that name."""
    replicas: tuple[Replica, ...] = ()
    lost: frozenset[str] = frozenset()
    """Nodes of the model's replicas that are lost: what they run may be gone."""
    refusals: tuple[Refusal, ...] = ()
    """Of the last plan of the fleet."""
    for_good: tuple[Refusal, ...] = ()
    """Those of the model, as the catalog has it, that no waiting ends: plan after plan."""
    wants: tuple[Want, ...] = ()
    """Of profiles that scale."""
    failures: tuple[StartFailure, ...] = ()
    plan: ModelPlan | None = None
    """Answers `MakePlan`."""
    asked: str | None = None
    """The step that `answers`, by node, belong to."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    judged: Mapping[str, tuple[Candidate, ...]] | None = None
    """Every node's verdict on one more replica, by profile. Answers `JudgeNodes`."""
    not_put: str | None = None
    """Why the catalog did not take the model."""


class MakePlan(Record, frozen=True, kw_only=True, tag_field="kind", tag="make_plan"):
    """Plan what serving a model would take."""

    model: Model


class AskNode(Record, frozen=True, kw_only=True, tag_field="kind", tag="ask_node"):
    """Ask a node how far a source's weights are."""

    node: str
    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource
    check_only: bool


class PutModel(Record, frozen=True, kw_only=True, tag_field="kind", tag="put_model"):
    """Put a model into the catalog if it is still at a version; 0: not there."""

    model: Model
    expected: int


class Forgive(Record, frozen=True, kw_only=True, tag_field="kind", tag="forgive"):
    """Forget the starts of a model that failed before: somebody wants it tried now."""

    model: str


class JudgeNodes(Record, frozen=True, kw_only=True, tag_field="kind", tag="judge_nodes"):
    """Say of each node whether a model that failed to start on others may be tried there."""

    model: str


Order = MakePlan | AskNode | PutModel | Forgive | JudgeNodes


@dataclass(frozen=True, slots=True)
class Turn:
    """What a step is now, and what it asks for."""

    step: JobStep
    orders: tuple[Order, ...] = ()
    plan_again: str | None = None
    """Why what was planned does not hold any more."""
    hint: str | None = None
    """What to do about a step that failed, where trying it again is no help."""
