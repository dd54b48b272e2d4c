"""The simulated engine's arguments."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

LOAD_FAULTS = ("out-of-memory", "bad-file", "no-gpu")


class ArgumentsWrong(Exception):
    """The arguments can't be read; the message says which."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, on purpose. Counts are tokens; None: it doesn't happen."""

    crash_after: int | None = None
    """The process aborts after so many tokens, of all requests together."""
    hang_after: int | None = None
    """After so many tokens of a request nothing more comes; 0: not even the first."""
    cut_after: int | None = None
    """The connection is closed after so many tokens of a request."""
    refuse: bool = False
    """Every request for a completion is answered 503."""
    ignore_term: bool = False
    load: str | None = None
    """One of LOAD_FAULTS."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """How the simulated engine behaves. Seconds."""

    host: str
    port: int
    model: str
    tokens_per_second: float
    """Of each request."""
    prompt_tokens_per_second: float
    """0: the prompt costs no time."""
    load_time: float
    reply_tokens: int
    """Tokens of a reply that the request does not bound."""
    parallel: int
    context: int
    strict_model: bool
    fault: Fault


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentsWrong(message)


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Return the arguments.

    Raises:
        ArgumentsWrong: one is unknown, missing or out of bounds.
    """
    parser = _Parser(prog="simulated", add_help=False, allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens-per-second", type=_positive, default=50.0)
    parser.add_argument("--prompt-tokens-per-second", type=_not_negative, default=2000.0)
    parser.add_argument("--load-time", type=_not_negative, default=0.0)
    parser.add_argument("--reply-tokens", type=_count, default=64)
    parser.add_argument("--parallel", type=_count, default=64)
    parser.add_argument("--context", type=_count, default=8192)
    parser.add_argument("--strict-model", action="store_true")
    parser.add_argument("--fault", action="append", default=[])
    read = parser.parse_args(list(argv))
    return Arguments(
        host=read.host,
        port=read.port,
        model=read.model if "simulated" in read.model else f"simulated/{read.model}",
        tokens_per_second=read.tokens_per_second,
        prompt_tokens_per_second=read.prompt_tokens_per_second,
        load_time=read.load_time,
        reply_tokens=read.reply_tokens,
        parallel=read.parallel,
        context=read.context,
        strict_model=read.strict_model,
        fault=parse_faults(read.fault),
    )


def parse_faults(texts: Sequence[str]) -> Fault:
    """Return the faults of `crash-after=20`, `hang`, `refuse`, `ignore-term` and their like.

    Raises:
        ArgumentsWrong: one is not known.
    """
    fields: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        match name:
            case "crash-after" | "hang-after" | "cut-after" if value.isdigit():
                fields[name.replace("-", "_")] = int(value)
            case "hang" if not value:
                fields["hang_after"] = 0
            case "refuse" | "ignore-term" if not value:
                fields[name.replace("-", "_")] = True
            case _ if text in LOAD_FAULTS:
                fields["load"] = text
            case _:
                raise ArgumentsWrong(f"argument --fault: {text!r} is no fault")
    return Fault(**fields)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1000000")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1000000")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 10**7:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 10000000")
    return value
