"""What every set of invariants has: a run to look at, and where a violation is told."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from llmgw.local.sim.engine import Engine
from llmgw_agent.supervise.environment import SHARD, shard_of
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
    return _named(engine.seen.environ.get(SHARD, ""))


@cache
def _named(shard: str) -> str:
    replica, rank = shard_of({SHARD: shard}) or ("?", 0)
    return f"{replica}/{rank}"
