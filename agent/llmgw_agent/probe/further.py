"""The sources that refine what the first ones found, in the order in which they are asked."""

from collections.abc import Callable
from dataclasses import dataclass

from llmgw.base.clock import Clock
from llmgw.base.world import Files, Http, Processes
from llmgw.model.settings import NodeSettings
from llmgw_agent.config import AgentConfig
from llmgw_agent.host.helper import Helper
from llmgw_agent.probe.facts import ProbedSource


@dataclass(frozen=True, slots=True)
class Means:
    """What sources are made with."""

    clock: Clock
    files: Files
    processes: Processes
    http: Http
    config: AgentConfig
    new_helper: Callable[[str], Helper]
    """Makes a helper process of a module."""
    settings: Callable[[], NodeSettings | None]
    """What the control plane told; None: nothing yet."""


def further(means: Means) -> tuple[ProbedSource, ...]:
    """Return the sources beside host, memory, processors, disks, cards and engines."""
    return ()
