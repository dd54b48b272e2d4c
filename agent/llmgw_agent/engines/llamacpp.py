"""llama.cpp's llama-server."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmgw.base.errors import NotFound
from llmgw.model.catalog import LLAMACPP
from llmgw.model.device import MIG
from llmgw.model.record import Problem
from llmgw.model.shard import NO_GPU, ComputeReport, ShardSpec
from llmgw_agent.engines.adapter import CommandLine, Launch
from llmgw_agent.engines.llamacpp_arguments import refusal
from llmgw_agent.parse.llamacpp_causes import cause_of, why_no_gpu
from llmgw_agent.parse.llamacpp_help import read_options
from llmgw_agent.parse.llamacpp_log import computes_on_gpu, read_compute

DEFAULT_CONCURRENCY = 4
"""Requests at once where a profile does not say: llama-server's own default."""

HTTP_THREADS_LEAST = 64
HTTP_THREADS_A_REQUEST = 4
"""HTTP threads for each request that is computed at once: a request that waits holds one too, and
without a free one nothing is answered, `/health` neither. llama-server's own default is a few."""

_MOST_TOKENS = 2**31 - 1
"""llama.cpp counts its context in 32 bits."""


class LlamaCpp:
    """How llama-server is started and what it says."""

    name = LLAMACPP
    ready_path = "/health"
    metrics_path = "/metrics"
    ready_limit = 900.0
    stop_limit = 15.0
    help_arguments = ("--help",)

    def read_options(self, text: str) -> frozenset[str] | None:
        """Return the options that the program lists; None when it lists none."""
        return read_options(text)

    def check(self, spec: ShardSpec, options: frozenset[str] | None) -> tuple[Problem, ...]:
        """Return everything in a spec that llama-server could not run."""
        return tuple(_problems(spec, options))

    def weights_file(self, path: Path, names: tuple[str, ...]) -> Path:
        """Return the GGUF file; of several parts the first, which names the others."""
        if not names:
            return path
        models = [n for n in names if n.endswith(".gguf") and not n.startswith("mmproj")]
        if not models:
            raise NotFound(f"{path}: no .gguf file in it")
        return path / models[0]

    def command(self, launch: Launch) -> CommandLine:
        """Return the command line.

        `-lv 4` because the default verbosity says nothing about devices and buffers. For the CPU
        `-ngl 0` is not enough: with a visible card llama.cpp still computes batches on it.
        """
        spec = launch.spec
        parallel = spec.concurrency or DEFAULT_CONCURRENCY
        argv = [*launch.program.start, "-m", str(launch.weights), "-np", str(parallel)]
        if spec.context is not None:
            argv += ["-c", str(spec.context * parallel)]
        if spec.cpu_cores is not None:
            argv += ["-t", str(spec.cpu_cores), "-tb", str(spec.cpu_cores)]
        argv += ["--host", launch.host, "--port", str(launch.port), "--alias", spec.model]
        argv += ["-lv", "4", "--metrics", *_http_threads(launch, parallel), *_offload(launch)]
        argv += spec.arguments
        env = {} if _on_instance(launch) else {"GGML_VK_VISIBLE_DEVICES": _vulkan_devices(launch)}
        if launch.key is not None:
            env["LLAMA_API_KEY"] = launch.key.reveal()
        return CommandLine(argv=tuple(argv), env=env)

    def served_name(self, spec: ShardSpec) -> str:
        """Return the alias that it is started with: the model's public name."""
        return spec.model

    def read_compute(self, lines: Sequence[str]) -> ComputeReport | None:
        """Return where its model buffers lie."""
        return read_compute(lines)

    def unused_gpus(
        self, report: ComputeReport | None, lines: Sequence[str]
    ) -> tuple[str, str] | None:
        """Return why no model buffer lies on a GPU; None when one does or it can't be told."""
        if report is None or computes_on_gpu(report) is not False:
            return None
        where = ", ".join(device.name for device in report.devices) or "none"
        words = f"llama.cpp put no model buffer on a GPU (buffers: {where})"
        cause, why = why_no_gpu(lines) or (NO_GPU, None)
        return cause, f"{words}: {why}" if why else words

    def cause_of(self, lines: Sequence[str], rc: int | None) -> tuple[str, str] | None:
        """Return why it ended, from its output and exit status."""
        return cause_of(lines, rc)


def _http_threads(launch: Launch, parallel: int) -> list[str]:
    if launch.options is None or "--threads-http" not in launch.options:
        return []
    return ["--threads-http", str(max(HTTP_THREADS_LEAST, HTTP_THREADS_A_REQUEST * parallel))]


def _offload(launch: Launch) -> list[str]:
    if launch.spec.devices:
        # A number that no model reaches: `all` is not known to builds of 2025 and before.
        return ["-ngl", "999", *_device_of_instance(launch)]
    if launch.options is not None and "--device" not in launch.options:
        return ["-ngl", "0"]
    return ["-ngl", "0", "--device", "none"]


def _on_instance(launch: Launch) -> bool:
    return any(device.kind == MIG for device in launch.devices)


def _device_of_instance(launch: Launch) -> list[str]:
    """Return the one device of a replica on a MIG instance, which CUDA alone can see.

    A build without CUDA ends with that as its reason; unnamed, it would take another card.
    """
    known = launch.options is None or "--device" in launch.options
    return ["--device", "CUDA0"] if known and _on_instance(launch) else []


def _vulkan_devices(launch: Launch) -> str:
    """Return the cards as Vulkan counts them; empty hides all of them.

    Vulkan knows no UUIDs here: the card's number is the nearest there is, and the compute report
    tells when it was not the one.
    """
    return ",".join(str(device.number) for device in launch.devices if device.number is not None)


def _problems(spec: ShardSpec, options: frozenset[str] | None) -> Iterator[Problem]:
    if spec.source is None:
        yield Problem(path="source", words="llama.cpp needs weights")
    if "," in spec.model:
        yield Problem(path="model", words="llama.cpp can't serve a name that holds a comma")
    if spec.rank != 0 or spec.rendezvous is not None:
        yield Problem(path="nodes", words="llama.cpp runs on one node")
    yield from _size_problems(spec)
    for number, argument in enumerate(spec.arguments):
        if words := refusal(argument) or _unknown(argument, options):
            yield Problem(path=f"arguments[{number}]", words=words)


def _size_problems(spec: ShardSpec) -> Iterator[Problem]:
    for name, value in (("context", spec.context), ("concurrency", spec.concurrency)):
        if value is not None and value < 1:
            yield Problem(path=name, words=f"{value} is less than 1")
    total = (spec.context or 0) * (spec.concurrency or DEFAULT_CONCURRENCY)
    if total > _MOST_TOKENS:
        yield Problem(
            path="context",
            words=f"context x concurrency is {total} tokens; llama.cpp counts to {_MOST_TOKENS}",
        )


def _unknown(argument: str, options: frozenset[str] | None) -> str | None:
    if options is None or not _is_option(argument):
        return None
    # llama.cpp itself reads `--ctx_size` as `--ctx-size`.
    name = argument.replace("_", "-") if argument.startswith("--") else argument
    if name in options:
        return None
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"this llama.cpp does not know {argument}{hint}"


def _is_option(argument: str) -> bool:
    return argument.startswith("--") or (argument[:1] == "-" and argument[1:2].isalpha())
