"""Logs: one line an event to stderr, text on a terminal and JSON otherwise, secrets hidden.

A service also keeps its last lines in a ring, which is what `ctl logs` and the console read.
"""

import json
import logging
import re
import sys
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO, cast

import structlog

from llmgw.base.secrets import hide

Event = MutableMapping[str, Any]

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
"""What would move a terminal's cursor or begin a line of its own; a tab is text."""


class _Unfailing:
    """A stream that never raises: what is logged about goes on when its log can't be written.

    The disk of a log file gets full, and a pipe's reader ends. Lines that come meanwhile are lost,
    and the first one that is written again says how many.
    """

    def __init__(self, out: TextIO, *, as_json: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._lost = 0

    def write(self, line: str) -> None:
        """Write a line, or count it as lost."""
        if self._lost:
            if not self._put(self._words()):
                return
            self._lost = 0
        self._put(line)

    def flush(self) -> None:
        """Do nothing: each line is flushed as it is written."""

    def _put(self, line: str) -> bool:
        try:
            self._out.write(line)
            self._out.flush()
        except (OSError, ValueError):
            # ValueError: the stream is closed.
            self._lost += 1
            return False
        return True

    def _words(self) -> str:
        words = f"up to {self._lost} lines before this one are missing: they could not be written"
        return f"{json.dumps({'event': words, 'level': 'warning'}) if self._as_json else words}\n"


class LogRing:
    """The last lines of a service, and those who follow them.

    A follower is a function that takes one line; it must neither block nor raise.
    """

    def __init__(self, lines: int = 2000) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._followers: set[Callable[[str], None]] = set()

    def add(self, line: str) -> None:
        """Keep a line and hand it to all followers."""
        self._lines.append(line)
        for follower in tuple(self._followers):
            follower(line)

    def tail(self, count: int) -> tuple[str, ...]:
        """Return the last `count` lines, oldest first."""
        if count <= 0:
            return ()
        return tuple(self._lines)[-count:]

    def follow(self, follower: Callable[[str], None]) -> Callable[[], None]:
        """Hand every later line to `follower`; the returned function ends it."""
        self._followers.add(follower)
        return lambda: self._followers.discard(follower)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module."""
    return cast("structlog.stdlib.BoundLogger", structlog.get_logger(module=name))


def setup(
    service: str,
    *,
    level: str = "info",
    json_lines: bool | None = None,
    ring: LogRing | None = None,
    out: TextIO | None = None,
) -> None:
    """Set logging up for this process; called once, by the composition root.

    Args:
        service: what every line names as its source.
        level: `debug`, `info` or `warning`.
        json_lines: JSON when True, text when False; None: text on a terminal, else JSON.
        ring: keeps the last lines as text.
        out: where lines go; stderr unless given.
    """
    stream = out if out is not None else sys.stderr
    as_json = not stream.isatty() if json_lines is None else json_lines
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _hide_secrets,
            _to_ring(ring),
            structlog.processors.JSONRenderer() if as_json else _as_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(
            file=cast("TextIO", _Unfailing(stream, as_json=as_json))
        ),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)
    _route_stdlib(LEVELS[level])


def _hide_secrets(_logger: object, _method: str, event: Event) -> Event:
    for name, value in event.items():
        event[name] = hide(name, value)
    return event


def _to_ring(ring: LogRing | None) -> Callable[[object, str, Event], Event]:
    def keep(logger: object, method: str, event: Event) -> Event:
        if ring is not None:
            ring.add(_as_text(logger, method, dict(event)))
        return event

    return keep


def _as_text(_logger: object, _method: str, event: Event) -> str:
    """Return `2026-01-31T12:00:00Z info fleet: node is ready node=gpu-03`."""
    at = str(event.pop("timestamp", ""))[:19]
    level = event.pop("level", "info")
    module = str(event.pop("module", "")).rpartition(".")[2]
    words = _CONTROLS.sub(_escaped, str(event.pop("event", "")))
    event.pop("service", None)
    trace = event.pop("exception", None)
    rest = " ".join(f"{name}={_value(value)}" for name, value in event.items())
    line = f"{at}Z {level:<7} {module}: {words} {rest}".rstrip()
    if not trace:
        return line
    return "\n".join((line, *(_CONTROLS.sub(_escaped, one) for one in trace.split("\n"))))


def _escaped(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _value(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text.isprintable() else text


class _ToStructlog(logging.Handler):
    """Takes what libraries log through the standard library."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = get(record.name)
        words = record.getMessage()
        if record.levelno >= logging.WARNING:
            logger.warning(words, exc_info=record.exc_info or None)
        else:
            logger.debug(words)


def _route_stdlib(level: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    # Libraries are chatty below warning; their debug lines would drown ours.
    root.setLevel(max(level, logging.WARNING))
