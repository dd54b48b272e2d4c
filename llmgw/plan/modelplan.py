"""What the planner answers."""

from llmgw.model.record import Problem, Record
from llmgw.plan.estimate import MemoryNeed
from llmgw.plan.records import Refusal


class PlannedShard(Record, frozen=True, kw_only=True):
    """One shard of a replica that would be started."""

    node: str
    devices: tuple[str, ...] = ()
    """As they are shown within their node: `gpu3`; empty on the CPU."""
    download_bytes: int | None = None
    """0 where the node holds the weights; None: it does not, and their size is not known."""
    tokens_per_second: float | None = None
    """Of one request on the CPU; None on a card, and where memory bandwidth is not measured."""


class PlannedReplica(Record, frozen=True, kw_only=True):
    """A replica that would be started, and why there."""

    profile: str
    shards: tuple[PlannedShard, ...]
    words: str


class GivenUp(Record, frozen=True, kw_only=True):
    """A replica of another model, or of this one as it is now, that would have to go."""

    replica: str
    model: str | None
    kind: str
    """Of the plan's step: `stop`, `drain` …"""
    words: str


class ProfilePlan(Record, frozen=True, kw_only=True):
    """What one profile would take."""

    profile: str
    wanted: int
    there: int
    """Replicas that serve it already and stay."""
    need: MemoryNeed
    refusal: Refusal | None = None
    """Why not all that are wanted can be placed: what is short, on which node."""
    warnings: tuple[str, ...] = ()
    rests: str = ""
    """When it has no replica and what starts one, in words; empty: it always has one."""


class FirstRequest(Record, frozen=True, kw_only=True):
    """What a request would start of a model that has no replica until one comes."""

    starts: tuple[PlannedReplica, ...] = ()
    gives_up: tuple[GivenUp, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    """Of the profiles that can't be placed, up to the first that can."""
    download_bytes: int | None = None
    """Of all nodes together; None when it is not known."""


class ModelPlan(Record, frozen=True, kw_only=True):
    """The planner's answer."""

    model: str
    problems: tuple[Problem, ...] = ()
    """What is wrong with it as it is written; then nothing else is said."""
    profiles: tuple[ProfilePlan, ...] = ()
    starts: tuple[PlannedReplica, ...] = ()
    gives_up: tuple[GivenUp, ...] = ()
    weights_bytes: int | None = None
    weights_on: tuple[str, ...] = ()
    """Nodes that hold its weights."""
    download_bytes: int | None = None
    """Of all nodes together; None when it is not known."""
    first_request: FirstRequest | None = None
    """None: some replica is wanted without one, or no request starts any."""
    fits: bool = False
    """Every replica that is wanted at least can be placed, or what the first request starts."""
    words: str = ""
    """All of it in one sentence."""
