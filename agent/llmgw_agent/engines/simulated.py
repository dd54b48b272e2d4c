"""The simulated engine: it computes nothing, and its name says so everywhere."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import llmgw_agent
from llmgw.model.catalog import SIMULATED
from llmgw.model.record import Problem
from llmgw.model.shard import (
    BAD_FILE,
    NO_GPU,
    OUT_OF_MEMORY,
    PORT_TAKEN,
    ComputeDevice,
    ComputeReport,
    ShardSpec,
)
from llmgw_agent.engines.adapter import CommandLine, Launch
from llmgw_agent.engines.simulated_server.arguments import ArgumentsWrong, parse_arguments

MODULE = "llmgw_agent.engines.simulated_server"

_OURS = frozenset({"--host", "--port", "--model", "--parallel", "--context"})
_CAUSES = (
    ("address already in use", PORT_TAKEN),
    ("out of memory", OUT_OF_MEMORY),
    ("not a model file", BAD_FILE),
)


class Simulated:
    """How the simulated engine is started and what it says.

    A profile's arguments are the server's own: `--tokens-per-second`, `--load-time`, `--fault` …
    """

    name = SIMULATED
    ready_path = "/health"
    metrics_path = "/metrics"
    ready_limit = 120.0
    stop_limit = 5.0
    help_arguments: tuple[str, ...] | None = None

    def read_options(self, text: str) -> frozenset[str] | None:  # noqa: ARG002
        """Return None: the server's arguments are checked by its own reader."""
        return None

    def check(
        self,
        spec: ShardSpec,
        options: frozenset[str] | None,  # noqa: ARG002
    ) -> tuple[Problem, ...]:
        """Return every argument that the server would refuse."""
        return tuple(_problems(spec))

    def weights_file(self, path: Path, names: tuple[str, ...]) -> Path:  # noqa: ARG002
        """Return the weights as they are: nothing reads them."""
        return path

    def command(self, launch: Launch) -> CommandLine:
        """Return the command line: this package's module under the interpreter that runs it.

        `-S` leaves out what only installed packages need, so that it starts in a tenth of a second;
        it imports the standard library and its own modules alone.
        """
        spec = launch.spec
        argv = [str(launch.program.path), "-S", "-P", "-m", MODULE]
        argv += ["--host", launch.host, "--port", str(launch.port)]
        argv += ["--model", self.served_name(spec)]
        if spec.concurrency is not None:
            argv += ["--parallel", str(spec.concurrency)]
        if spec.context is not None:
            argv += ["--context", str(spec.context)]
        env = {"PYTHONPATH": str(Path(llmgw_agent.__file__).parent.parent)}
        if launch.key is not None:
            env["LLMGW_ENGINE_KEY"] = launch.key.reveal()
        return CommandLine(argv=(*argv, *spec.arguments), env=env)

    def served_name(self, spec: ShardSpec) -> str:
        """Return the model's name with the word in it."""
        return spec.model if SIMULATED in spec.model else f"{SIMULATED}/{spec.model}"

    def read_compute(self, lines: Sequence[str]) -> ComputeReport | None:
        """Return a report that names no hardware."""
        for line in lines:
            if "simulated: computes on nothing" in line:
                device = ComputeDevice(name=SIMULATED, back_end=SIMULATED)
                return ComputeReport(devices=(device,), back_end=SIMULATED)
            if "simulated: computes on the CPU instead" in line:
                device = ComputeDevice(name="CPU", back_end="CPU", model_bytes=1)
                return ComputeReport(devices=(device,), back_end="CPU", layers_offloaded=0)
        return None

    def unused_gpus(
        self,
        report: ComputeReport | None,
        lines: Sequence[str],  # noqa: ARG002
    ) -> tuple[str, str] | None:
        """Return the words of a fault that was asked for; else None: there is nothing to use."""
        if report is None or report.back_end == SIMULATED:
            return None
        return NO_GPU, "the simulated engine put no model buffer on a GPU, as it was told"

    def cause_of(
        self,
        lines: Sequence[str],
        rc: int | None,  # noqa: ARG002
    ) -> tuple[str, str] | None:
        """Return the cause that the server names."""
        for line in lines:
            for words, cause in _CAUSES:
                if words in line:
                    return cause, line
        return None


def _problems(spec: ShardSpec) -> Iterator[Problem]:
    for number, argument in enumerate(spec.arguments):
        name = argument.partition("=")[0]
        if name in _OURS:
            yield Problem(path=f"arguments[{number}]", words=f"{name} is not for a profile")
    try:
        parse_arguments(["--host", "-", "--port", "1", "--model", "-", *spec.arguments])
    except ArgumentsWrong as error:
        yield Problem(path="arguments", words=str(error))
