"""Lines of a kernel log: what was printed, and when, whatever printed it.

The same message comes as `dmesg` writes it (seconds since boot, `-T`, `--time-format=iso`), as
`journalctl -k` and syslog do (host and `kernel:` before it), as a record of /dev/kmsg (kernel
documentation, ABI/testing/dev-kmsg), or bare.
"""

import re
from datetime import datetime

from llmgw.model.record import Record
from llmgw_agent.parse import plausible

_KMSG = re.compile(
    r"(?P<priority>\d{1,5}),\d{1,20},(?P<microseconds>\d{1,20}),[^;]*;(?P<text>.*)\Z", re.ASCII
)
_BOOT = re.compile(
    r"(?:(?P<facility>[a-z0-9]+) *:[a-z]+ *: )?"  # `dmesg -x` names facility and level
    r"\[ *(?P<seconds>\d{1,20}\.\d{1,9})\](?:\[ *[TC]\d+\])? ?(?P<text>.*)\Z",
    re.ASCII,
)
_CLOCK = re.compile(r"\[(?P<stamp>[^]]{16,40})\] ?(?P<text>.*)\Z")
_ISO = re.compile(
    r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)) (?P<text>.*)\Z"
)
_SYSLOG = re.compile(
    r"(?P<stamp>[^\W\d]{3,9}\.? +\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)?) (?P<text>\S+ kernel: .*)\Z"
)
_SOURCE = re.compile(r"\S+ kernel: (?P<text>.*)\Z")
_KERNEL = "kern"
"""The facility of what the kernel says itself. Number 0: the lowest three bits are the level."""
_ESCAPE = re.compile(r"\\x(0a|5c)")


class LogTime(Record, frozen=True, kw_only=True):
    """When something was printed, as far as the log tells: one of these, or nothing."""

    at: float | None = None
    """Seconds since the epoch; None unless date and zone are told."""
    since_boot: float | None = None
    """Seconds."""
    stamp: str | None = None
    """A time that nobody can place (no zone, no year, no such day), as it is written."""


class LogLine(Record, frozen=True, kw_only=True):
    """One message of the kernel and the time that stands before it."""

    text: str
    when: LogTime = LogTime()
    by_kernel: bool = True
    """False: a program wrote it into the log. It can give its lines any facility but the kernel's.
    Where none is told it can't be known, and whoever prints the log has to leave such lines out.
    """


def read_line(line: str) -> LogLine:
    """Return a line without what stands before the message.

    A line in no known form is a message without a time: the further lines of a message that has
    several are such.
    """
    if (record := _KMSG.match(line)) is not None:
        text, told = _ESCAPE.sub(_unescaped, record["text"]), record["microseconds"]
        when = _since_boot(int(told) / 1e6, told)
        return LogLine(text=text, when=when, by_kernel=int(record["priority"]) >> 3 == 0)
    if (found := _BOOT.match(line)) is not None:
        when = _since_boot(float(found["seconds"]), found["seconds"])
        by_kernel = found["facility"] in {None, _KERNEL}
        return LogLine(text=found["text"], when=when, by_kernel=by_kernel)
    if (found := _ISO.match(line)) is not None:
        return LogLine(text=_message(found["text"]), when=_moment(found["stamp"]))
    if (found := _SYSLOG.match(line) or _CLOCK.match(line)) is not None:
        return LogLine(text=_message(found["text"]), when=LogTime(stamp=found["stamp"]))
    return LogLine(text=line.strip())


def _message(text: str) -> str:
    """Leave out host and source, and the seconds since boot that syslog may keep behind them."""
    source = _SOURCE.match(text)
    if source is None:
        return text
    boot = _BOOT.match(source["text"])
    return source["text"] if boot is None else boot["text"]


def _since_boot(seconds: float, told: str) -> LogTime:
    found = plausible.up(seconds)
    return LogTime(stamp=told) if found is None else LogTime(since_boot=found)


def _moment(stamp: str) -> LogTime:
    try:
        at = plausible.moment(datetime.fromisoformat(stamp.replace(",", ".")).timestamp())
    except (ValueError, OverflowError):
        at = None
    return LogTime(stamp=stamp) if at is None else LogTime(at=at)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "0a" else "\\"
