"""Everything a scrape is made of, at one moment: records that nobody changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.base.periodic import PassSeen
from llmgw.model.gateway import Gateway, LoadReport, ModelTraffic, Route
from llmgw.model.node import Sample
from llmgw.model.replica import Replica
from llmgw.plan.records import NodeRoom, Plan


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet and the control plane as one scrape shows them."""

    now: float
    cluster: str
    server: str
    version: str
    leader: bool
    settled: bool
    """The known nodes have reported, or were waited for long enough."""
    term: int
    followers: int
    agents: int
    rooms: tuple[NodeRoom, ...]
    samples: Mapping[str, Sample]
    """Last heartbeat by node."""
    replicas: tuple[Replica, ...]
    routes: tuple[Route, ...]
    gateways: tuple[Gateway, ...]
    traffic: tuple[ModelTraffic, ...]
    passes: Mapping[str, PassSeen | None]
    plan: Plan | None
    models_of: Mapping[str, str]
    """Model by replica."""
    flaps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often the link of each port went down, by node and port (`mlx5_0/1`)."""
    evictions: Mapping[str, int] = field(default_factory=dict)
    """Replicas that were evicted since this control plane started, by model."""
    preemptions: Mapping[str, int] = field(default_factory=dict)
    """The same of those that were pre-empted."""
    unwritten: Mapping[str, bool] = field(default_factory=dict)
    """Whether records can't be written into the store, by kind."""
    queued: Mapping[str, int] = field(default_factory=dict)
    """Requests that wait at gateways, by model."""
    gateway_loads: Mapping[str, LoadReport] = field(default_factory=dict)
    """What gateways have in flight now, of those that say so."""
    keys_over_quota: int = 0
    """Keys of which a request was refused for a limit lately."""
    lost_together: int = 0
    """Nodes of a mass loss that are still away."""
