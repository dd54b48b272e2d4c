"""The seam to an engine: how one is started, asked and understood. One module per engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from llmgw.base.secrets import Secret
from llmgw.model.device import Device
from llmgw.model.record import Problem
from llmgw.model.shard import ComputeReport, ShardSpec


class Program(Protocol):
    """An engine's program on this node."""

    @property
    def path(self) -> Path:
        """Return where it lies."""
        ...

    @property
    def start(self) -> Sequence[str]:
        """Return what its command line begins with: itself, or what runs it."""
        ...

    @property
    def libraries(self) -> Sequence[Path]:
        """Return the directories that its loader needs."""
        ...

    @property
    def version(self) -> str | None:
        """Return which version it is; None when it does not say."""
        ...


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the node is known to have when a shard is to be started."""

    devices: tuple[Device, ...] | None = None
    """None: nobody could ask; then nothing is refused for a device that is not listed."""
    cpus: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that a command line is made of."""

    spec: ShardSpec
    program: Program
    host: str
    port: int
    weights: Path | None = None
    key: Secret | None = None
    devices: tuple[Device, ...] = ()
    """The shard's devices as the node knows them; shorter than the spec's where it does not."""
    options: frozenset[str] | None = None
    """The options that this build knows; None: it could not be asked."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """How an engine is started. A key is in `env` alone, never in `argv`."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """What this engine needs beyond what every engine gets."""


class Adapter(Protocol):
    """One engine. Everything here is a function of its arguments: no I/O."""

    @property
    def name(self) -> str:
        """Return the engine's name, as profiles write it."""
        ...

    @property
    def ready_path(self) -> str:
        """Return the path that answers 200 once requests are served."""
        ...

    @property
    def metrics_path(self) -> str:
        """Return the path of the engine's metrics; it answers 401 without the replica's key."""
        ...

    @property
    def ready_limit(self) -> float:
        """Return the seconds that loading may take where a profile sets no limit."""
        ...

    @property
    def stop_limit(self) -> float:
        """Return the seconds between the request to end and the kill."""
        ...

    @property
    def help_arguments(self) -> tuple[str, ...] | None:
        """Return what makes the program list its options; None: it is not asked."""
        ...

    def read_options(self, text: str) -> frozenset[str] | None:
        """Return the options that the program lists; None when it lists none."""
        ...

    def check(self, spec: ShardSpec, options: frozenset[str] | None) -> tuple[Problem, ...]:
        """Return everything in a spec that this engine could not run."""
        ...

    def weights_file(self, path: Path, names: tuple[str, ...]) -> Path:
        """Return what is handed to the engine.

        Args:
            path: where the weights lie.
            names: what is in it when it is a directory; empty for a file.

        Raises:
            NotFound: there is nothing in it that this engine reads.
        """
        ...

    def command(self, launch: Launch) -> CommandLine:
        """Return how a shard is started."""
        ...

    def served_name(self, spec: ShardSpec) -> str:
        """Return the model's name that the engine itself answers to."""
        ...

    def read_compute(self, lines: Sequence[str]) -> ComputeReport | None:
        """Return what the engine computes on; None when its output does not say."""
        ...

    def unused_gpus(
        self, report: ComputeReport | None, lines: Sequence[str]
    ) -> tuple[str, str] | None:
        """Return one word and a sentence for GPUs that it was given and does not use.

        None: it uses one, or nothing can be told.
        """
        ...

    def cause_of(self, lines: Sequence[str], rc: int | None) -> tuple[str, str] | None:
        """Return one word and a sentence for why it ended; None when nothing tells."""
        ...
