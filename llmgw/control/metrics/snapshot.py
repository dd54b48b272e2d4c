"""Everything a scrape is made of, at one moment: records that nobody changes."""

from dataclasses import dataclass

from llmgw.base.periodic import PassSeen
from llmgw.model.gateway import Gateway, ModelTraffic, Route
from llmgw.model.node import Sample
from llmgw.model.replica import Replica
from llmgw.plan.records import NodeRoom, Plan

OLD_SECONDS = 60.0
"""A measurement older than this is left out, not repeated."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet and the control plane as one scrape shows them."""

    now: float
    cluster: str
    server: str
    version: str
    leader: bool
    term: int
    followers: int
    agents: int
    rooms: tuple[NodeRoom, ...]
    samples: tuple[Sample, ...]
    replicas: tuple[Replica, ...]
    routes: tuple[Route, ...]
    gateways: tuple[Gateway, ...]
    traffic: tuple[ModelTraffic, ...]
    passes: dict[str, PassSeen | None]
    plan: Plan | None
    models_of: dict[str, str]
    """Model by replica."""

    def fresh(self) -> tuple[Sample, ...]:
        """Return the heartbeats that are not old."""
        return tuple(one for one in self.samples if self.now - one.at <= OLD_SECONDS)
