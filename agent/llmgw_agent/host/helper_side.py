"""The other end of `llmgw_agent.host.helper`: what runs in a helper process.

It imports little, no event loop above all: see `llmgw_agent.host.helper_lines`.
"""

import os
import sys
from collections.abc import Callable

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.model.record import Record
from llmgw_agent.host.helper_lines import Failed, Said


def serve(answer: Callable[[bytes], Record]) -> None:
    """Answer every line of standard input; return at its end."""
    for line in sys.stdin.buffer:
        try:
            say(Said(done=msgspec.Raw(msgspec.json.encode(answer(line)))))
        except Exception as error:  # noqa: BLE001 (a process's top: the asker is told)
            say(Said(failed=failed(error)))


def say(said: Said) -> None:
    """Write one line; end when nobody is left to read it."""
    try:
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Nobody is left to tell; the flush at exit would fail as well.
        os._exit(0)


def failed(error: Exception) -> Failed:
    """Return an error as it travels."""
    if isinstance(error, LlmgwError):
        return Failed(error=type(error).__name__, message=error.message, hint=error.hint)
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        words = f"{error.filename}: {error.strerror}"
    return Failed(error="LlmgwError", message=words)
