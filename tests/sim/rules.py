"""What every set of invariants has: a run to look at, and where a violation is told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmgw.local.sim.engine import Engine
from llmgw_agent.supervise.environment import shard_of
from tests.sim.coverage import Coverage

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation


class Violation(Exception):
    """An invariant does not hold."""


@dataclass
class Rules:
    """Some invariants of a run."""

    sim: "Simulation"
    coverage: Coverage
    violated: Callable[[str], None]


def name_of(engine: Engine) -> str:
    """Return which shard an engine is, as people write it."""
    replica, rank = shard_of(engine.seen.environ) or ("?", 0)
    return f"{replica}/{rank}"
