"""What an agent takes from outside, in one place, so that a simulator can hand in its own."""

import os
import random
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from llmgw.base.clock import Clock, SystemClock
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.base.world import Files, Http, Processes
from llmgw_agent.host.helper import Helper, HelperProcess
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.host.machine import Machine
from llmgw_agent.supervise.ports import is_free


class ClosableHttp(Http, Protocol):
    """An HTTP client that keeps connections."""

    async def close(self) -> None:
        """Close them."""
        ...


NewHelper = Callable[[str, float], Callable[[], Helper]]
"""Returns what makes a helper process of a module; see `host.helper` for the seconds of grace."""


@dataclass(frozen=True, slots=True)
class World:
    """The machine and its time, as an agent sees them."""

    processes: Processes
    files: Files
    http: ClosableHttp
    clock: Clock
    rng: random.Random
    """For jitter; never for secrets."""
    boot: str
    """Random, new with each start of the agent."""
    machine: Machine
    new_helper: NewHelper
    port_free: Callable[[str, int], bool] = is_free


def this_world(environ: Mapping[str, str]) -> World:
    """Return the machine that this process runs on.

    Args:
        environ: of helper processes.
    """
    return World(
        processes=SystemProcesses(),
        files=SystemFiles(),
        http=HttpxHttp(proxies=False),
        clock=SystemClock(),
        rng=random.Random(int.from_bytes(os.urandom(8))),
        boot=secrets.token_hex(8),
        machine=Machine.here(),
        new_helper=lambda module, grace: helpers(module, environ, grace),
    )


def helpers(module: str, environ: Mapping[str, str], grace: float = 0.0) -> Callable[[], Helper]:
    """Return what makes a helper process of a module; see `host.helper` for `grace`."""
    argv = (sys.executable, "-m", module)
    return lambda: HelperProcess(argv, environ=environ, grace=grace)
