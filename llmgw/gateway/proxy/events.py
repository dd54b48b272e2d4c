"""A reply that is a stream of server-sent events: passed on whole event by whole event."""

import re

from llmgw.gateway.proxy.usage import Usage, read_event

HELD_MOST = 1 << 20
"""Bytes of one event that are held until it is whole; a longer one is passed on as it comes."""

_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"^[^:\r\n]", re.MULTILINE)
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_FIELD = b"data:"
_BLANK = (b"\n\n", b"\n\r\n")
_DONE = b"[DONE]"
_USAGE = b'"usage"'
_SAYS = re.compile(rb'"usage"(?!\s*:\s*null)')
"""Of an engine that has `"usage":null` in every event only those are looked into that say more."""
_PROGRESS = b'"prompt_progress"'
UNCOUNTED_MOST = 16
"""Pieces of a stream that are kept to be counted together, or not at all."""


class EventStream:
    """Counts events, reads the usage from them, and takes out the events that nobody asked for.

    An event that is not whole yet is held back: half of it tells a client nothing, and a stream
    that breaks can then end with an error at the border of two events.

    What passes is counted when somebody asks: the engine's own count mostly comes first.

    Args:
        hide_usage: the gateway asked for the usage, not the client.
        hide_progress: the gateway asked how far the prompt is, not the client.
    """

    __slots__ = (
        "_events",
        "_held",
        "_hide_progress",
        "_hide_usage",
        "_other",
        "_uncounted",
        "usage",
    )

    def __init__(self, *, hide_usage: bool, hide_progress: bool = False) -> None:
        self._hide_usage = hide_usage
        self._hide_progress = hide_progress
        self._held = b""
        self._events = 0
        self._other = 0
        self._uncounted: list[bytes] = []
        """Whole events that passed and are not counted yet."""
        self.usage: Usage | None = None

    @property
    def produced(self) -> int:
        """Return an estimate of the tokens that went by: one an event, but the first of a chat."""
        self._count()
        return max(0, self._events - self._other - 1)

    def feed(self, data: bytes) -> bytes:
        """Return what is passed on now."""
        if self._held:
            data = self._held + data
            self._held = b""
        if not data.endswith(_BLANK):
            data = self._hold(data)
        if self._hide_progress and _PROGRESS in data:
            return self._sift(data)
        if data.rfind(_USAGE) >= 0:  # not `in`: it mostly stands at the end of what comes at once
            said = _SAYS.search(data)
            if said is not None:
                return self._sift_behind(data, said.start())
        self._pass(data)
        return data

    def _pass(self, data: bytes) -> None:
        """Remember whole events, to count them."""
        self._uncounted.append(data)
        if len(self._uncounted) > UNCOUNTED_MOST:
            self._count()

    def _count(self) -> None:
        """Count what passed since the last time."""
        data = b"".join(self._uncounted)
        self._uncounted.clear()
        if data.startswith(b":") or b"\n:" in data:
            # Some engines keep a connection alive with comments.
            self._events -= sum(map(_is_comment, _END.split(data)[:-1]))
        self._events += data.count(b"\n\n")
        if b"\r" in data:
            self._events += data.count(b"\n\r\n")
        if _DONE in data:
            self._other += 1

    def rest(self) -> bytes:
        """Return what was held back when the engine ended without a last blank line."""
        rest, self._held = self._held, b""
        return rest

    def _hold(self, data: bytes) -> bytes:
        cut = _behind_last_blank(data, len(data))
        if len(data) - cut > HELD_MOST:
            return data
        self._held = data[cut:]
        return data[:cut]

    def _sift_behind(self, data: bytes, said: int) -> bytes:
        """Look into the event at a place and those behind it; what is before is only counted."""
        cut = _behind_last_blank(data, said)
        if not cut:
            return self._sift(data)
        before = data[:cut]
        self._pass(before)
        return before + self._sift(data[cut:])

    def _sift(self, data: bytes) -> bytes:
        kept = []
        begin = 0
        for border in _END.finditer(data):
            event = data[begin : border.end()]
            begin = border.end()
            if self._is_hidden(event):
                continue
            if not _is_comment(event):
                self._events += 1
            if _DONE in event:
                self._other += 1
            kept.append(event)
        kept.append(data[begin:])
        return b"".join(kept)

    def _is_hidden(self, event: bytes) -> bool:
        """Keep the usage that an event tells; say whether nobody asked for the event."""
        if _USAGE not in event and _PROGRESS not in event:
            return False
        read = read_event(_data_of(event))
        if read is None:
            return False
        usage = read.usage if read.response is None else read.response.usage
        if usage is not None:
            self.usage = usage
            return self._hide_usage and read.choices == []
        return self._hide_progress and bool(read.prompt_progress)


def _is_comment(event: bytes) -> bool:
    """Say whether an event is nothing but comments, which every client skips."""
    return event.startswith(b":") and _LINE.search(event) is None


def _data_of(event: bytes) -> bytes:
    """Return the data of an event, which mostly has one line and nothing else."""
    if event.startswith(_FIELD) and event.find(b"\n") >= len(event) - len(b"\n\r\n"):
        return event[len(_FIELD) :]
    return b"\n".join(_DATA.findall(event))


def _behind_last_blank(data: bytes, end: int) -> int:
    """Return where the last event that is whole before a place ends; 0: none is."""
    cut = data.rfind(b"\n\n", 0, end) + 2
    if b"\r" in data:
        cut = max(cut, data.rfind(b"\n\r\n", 0, end) + 3)
    return 0 if cut < 3 else cut
