"""llama.cpp's own HTTP server as a program, from the wheel `xllamacpp`, which has it as a library.

    python -I -S -B xllamacpp_server.py PACKAGES [options]

The wheel is built for any x86-64 processor with AVX2 and for arm64, on an old C library, where the
wheels that ship the program `llama-server` ask for more. This file runs in an interpreter of its
own that finds the standard library and PACKAGES (where the wheel was unpacked) and nothing else:
none of llmgw, and llmgw's own environment never sees the wheel. It takes llama-server's options as
far as llmgw and profiles use them, and prints and answers what llama-server does.

Who runs it has to be able to read this file, the interpreter and PACKAGES: an agent that starts
engines as another user must not have them in a directory that is its own alone.
"""

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

_NUMBERS = {
    "port": "--port",
    "n_ctx": "-c --ctx-size",
    "n_parallel": "-np --parallel",
    "n_batch": "-b --batch-size",
    "n_ubatch": "-ub --ubatch-size",
    "n_gpu_layers": "-ngl --gpu-layers",
    "n_predict": "-n --predict --n-predict",
    "n_threads_http": "--threads-http",
    "cache_ram_mib": "-cram --cache-ram",
    "verbosity": "-lv --verbosity",
}
_REALS = {"rope_freq_base": "--rope-freq-base", "rope_freq_scale": "--rope-freq-scale"}
_WORDS = {"chat_template": "--chat-template"}
_ON = {
    "endpoint_metrics": "--metrics",
    "endpoint_slots": "--slots",
    "embedding": "--embedding --embeddings",
}
_OFF = {"warmup": "--no-warmup", "cont_batching": "-nocb --no-cont-batching"}
"""The library's name of a parameter, and the options that set it."""


class Parser(argparse.ArgumentParser):
    """Refuses in llama-server's own words, by which the cause is known."""

    def error(self, message: str) -> NoReturn:
        """End with what is wrong with the command line."""
        self.exit(1, f"error: invalid argument: {message}\n")


def parser() -> Parser:
    """Return the options, named as llama-server names them."""
    made = Parser(prog="llama-server", allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for kind, group in ((int, _NUMBERS), (float, _REALS), (str, _WORDS)):
        for name, flags in group.items():
            made.add_argument(*flags.split(), dest=name, type=kind)
    for action, group in (("store_true", _ON), ("store_false", _OFF)):
        for name, flags in group.items():
            made.add_argument(*flags.split(), dest=name, action=action)
    made.add_argument("-m", "--model", default="")
    made.add_argument("-a", "--alias", default=None)
    made.add_argument("--host", default="127.0.0.1")
    made.add_argument("-t", "--threads", type=int, default=None)
    made.add_argument("-tb", "--threads-batch", type=int, default=None)
    made.add_argument("--version", action="store_true", default=False)
    return made


def main(packages: str, options: Sequence[str]) -> int:
    """Serve until a signal; return the exit status."""
    asked = parser().parse_args([_as_written(option) for option in options])
    # Behind the standard library, which a wheel must not stand in for.
    sys.path.append(packages)
    xllamacpp: Any = importlib.import_module("xllamacpp")
    if asked.version:
        print(f"version: {xllamacpp.__version__} (xllamacpp)", file=sys.stderr)
        print(f"system_info: {xllamacpp.get_system_info()}", file=sys.stderr)
        return 0
    ending = threading.Thread(target=end_at_signal, daemon=True)
    ending.start()
    try:
        # Kept in a name: when it is collected, the server ends.
        server = xllamacpp.Server(parameters(xllamacpp, asked))
    except RuntimeError as error:
        print(f"E srv  main: {error}", file=sys.stderr)
        return 1
    ending.join()
    del server
    return 0


def end_at_signal() -> None:
    """End the process at the first SIGTERM or SIGINT, also while the model loads.

    At once: the library's own way out waits for its loop, which waits for it.
    """
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    sys.stderr.flush()
    os._exit(0)


def parameters(xllamacpp: Any, asked: argparse.Namespace) -> Any:  # noqa: ANN401
    """Return the options as the library takes them."""
    made = xllamacpp.CommonParams()
    made.model.path = asked.model
    made.hostnames = [asked.host]
    if key := os.environ.get("LLAMA_API_KEY"):
        made.api_keys = [key]
    if asked.alias:
        made.model_alias = {asked.alias}
    for name in (*_NUMBERS, *_REALS, *_WORDS, *_ON, *_OFF):
        if hasattr(asked, name):
            setattr(made, name, getattr(asked, name))
    if asked.threads is not None:
        made.cpuparams.n_threads = asked.threads
    if asked.threads_batch is not None:
        made.cpuparams_batch.n_threads = asked.threads_batch
    return made


def _as_written(option: str) -> str:
    """Return an option as it is listed: llama-server reads `--ctx_size` as `--ctx-size` too."""
    name, equals, value = option.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if name.startswith("--") else option


if __name__ == "__main__":
    # Before the library starts threads: the signals have to arrive here and nowhere else.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(main(sys.argv[1], sys.argv[2:]))
