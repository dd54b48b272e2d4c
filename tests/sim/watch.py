"""What the product says while it runs: every log record, counted, traced and looked at.

This is how a run knows which paths the product took: by its own words, not by what was done to it.
"""

import hashlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from llmgw.base.errors import LlmgwError
from llmgw.local.sim.loop import LIFE, SimLoop

KEPT = 400
"""Lines that a failing run shows the last of."""


@dataclass(frozen=True, slots=True)
class Said:
    """One log record."""

    at: float
    who: str
    """The life that said it."""
    host: str
    module: str
    level: str
    words: str
    fields: dict[str, Any]

    def line(self) -> str:
        """Return it for people."""
        rest = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.at:9.2f} {self.who}: {self.words} {rest}".rstrip()


@dataclass
class Watch:
    """Hears everything of one run.

    Attributes:
        hear: called with each record.
        directory: where weights lie: its name is another in each run, and no part of the trace.
        trace: a hash over what happened and when.
    """

    loop: SimLoop
    directory: str = ""
    hear: Callable[[Said], None] = lambda _said: None
    trace: Any = field(default_factory=hashlib.sha256)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))
    said: Counter[str] = field(default_factory=Counter)

    def note(self, words: str) -> None:
        """Put something of the simulation's own into the trace."""
        at = self.loop.time()
        self._trace(f"{at:.6f} {words}\n")
        self.last.append(f"{at:9.2f} -- {words}")

    def take(self, level: str, event: dict[str, Any]) -> None:
        """Take a log record."""
        life = LIFE.get()
        module = str(event.pop("module", ""))
        error = event.pop("exc_info", None)
        words = str(event.pop("event", ""))
        if error is not None:
            event["exception"] = repr(error)
        said = Said(
            at=self.loop.time(),
            who="" if life is None else life.name,
            host="" if life is None else life.host,
            module=module,
            level=level,
            words=words,
            fields=event,
        )
        self._trace(f"{said.at:.6f} {said.who} {words}\n")
        self.last.append(said.line())
        if isinstance(error, Exception) and not isinstance(error, LlmgwError):
            said.fields["fault"] = error
        self.hear(said)

    def _trace(self, line: str) -> None:
        if self.directory:
            line = line.replace(self.directory, "")
        self.trace.update(line.encode())


_watching: list[Watch] = []


def _take(_logger: object, method: str, event: MutableMapping[str, Any]) -> Any:
    if _watching:
        _watching[-1].take(method, dict(event))
    raise structlog.DropEvent


class _ToWatch(logging.Handler):
    """What libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        if _watching and record.levelno >= logging.ERROR:
            _watching[-1].take("error", {"event": record.getMessage(), "module": record.name})


@contextmanager
def hearing() -> Iterator[list[Watch]]:
    """Let the last watch of the list hear everything within the block; nothing is printed."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    structlog.configure(
        processors=[_take],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    root.handlers[:] = [_ToWatch()]
    root.setLevel(logging.ERROR)
    try:
        yield _watching
    finally:
        _watching.clear()
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
