"""What faults are done to: machines with agents, machines with control planes, and what is between.

Whoever puts a simulation together says what starts and ends on them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llmgw.local.sim.clock import SimClock
from llmgw.local.sim.http import FileServer
from llmgw.local.sim.loop import Life, SimLoop
from llmgw.local.sim.machine import Machine
from llmgw.local.sim.network import Network


class Host(Protocol):
    """A machine on which agents come and go."""

    name: str
    machine: Machine
    life: Life | None
    ill: set[str]
    """Models that die on it while they load."""

    @property
    def fetching(self) -> bool:
        """Say whether weights are on their way to it."""
        ...

    def start(self) -> None:
        """Start an agent."""
        ...

    def kill(self) -> None:
        """End its agent as SIGKILL does."""
        ...

    def stop(self) -> None:
        """Ask its agent to end."""
        ...

    def boot(self) -> None:
        """Switch it off and on."""
        ...


class Head(Protocol):
    """A machine on which control planes come and go."""

    name: str
    host: str
    clock: SimClock
    life: Life | None
    store_away: Exception | None

    def start(self) -> None:
        """Start a control plane."""
        ...

    def kill(self) -> None:
        """End it as SIGKILL does."""
        ...

    def stop(self) -> None:
        """Ask it to end."""
        ...


class Gateway(Protocol):
    """A machine on which gateways come and go."""

    name: str
    host: str
    life: Life | None

    def start(self) -> None:
        """Start a gateway."""
        ...

    def kill(self) -> None:
        """End it and its workers as SIGKILL does."""
        ...

    def stop(self) -> None:
        """Ask it to end."""
        ...

    def kill_worker(self) -> bool:
        """Kill one of its workers; say whether there was one."""
        ...


@dataclass
class World:
    """What faults are done to."""

    loop: SimLoop
    network: Network
    hosts: Sequence[Host]
    heads: Sequence[Head]
    servers: dict[str, FileServer]
    records: Path
    """Below it an agent keeps its books; what is removed there is lost."""
    models: Callable[[], Sequence[str]]
    gateways: Sequence[Gateway] = ()
