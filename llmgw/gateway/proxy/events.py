"""A reply that is a stream of server-sent events: passed on whole event by whole event."""

import re

import msgspec

from llmgw.gateway.proxy.usage import Usage

HELD_MOST = 1 << 20
"""Bytes of one event that are held until it is whole; a longer one is passed on as it comes."""

_END = re.compile(rb"\r?\n\r?\n")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_BLANK = (b"\n\n", b"\n\r\n")
_DONE = b"[DONE]"
_USAGE = b'"usage"'
_SAYS = re.compile(rb'"usage"(?!\s*:\s*null)')
"""Of an engine that has `"usage":null` in every event only those are looked into that say more."""
_PROGRESS = b'"prompt_progress"'


class _Response(msgspec.Struct):
    usage: Usage | None = None


class _Event(msgspec.Struct):
    usage: Usage | None = None
    response: _Response | None = None
    """Where an event of the Responses API has it."""
    choices: list[msgspec.Raw] | None = None
    prompt_progress: msgspec.Raw = msgspec.Raw(b"")


_event = msgspec.json.Decoder(_Event)


class EventStream:
    """Counts events, reads the usage from them, and takes out the events that nobody asked for.

    An event that is not whole yet is held back: half of it tells a client nothing, and a stream
    that breaks can then end with an error at the border of two events.

    Args:
        hide_usage: the gateway asked for the usage, not the client.
        hide_progress: the gateway asked how far the prompt is, not the client.
    """

    __slots__ = ("_events", "_held", "_hide_progress", "_hide_usage", "_other", "usage")

    def __init__(self, *, hide_usage: bool, hide_progress: bool = False) -> None:
        self._hide_usage = hide_usage
        self._hide_progress = hide_progress
        self._held = b""
        self._events = 0
        self._other = 0
        self.usage: Usage | None = None

    @property
    def produced(self) -> int:
        """Return an estimate of the tokens that went by: one an event, but the first of a chat."""
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
        if _USAGE in data:
            said = _SAYS.search(data)
            if said is not None:
                return self._sift_behind(data, said.start())
        self._count(data)
        return data

    def _count(self, data: bytes) -> None:
        """Count whole events."""
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
        cut = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if cut < 3:
            cut = 0
        if len(data) - cut > HELD_MOST:
            return data
        self._held = data[cut:]
        return data[:cut]

    def _sift_behind(self, data: bytes, said: int) -> bytes:
        """Look into the event at a place and those behind it; what is before is only counted."""
        cut = max(data.rfind(b"\n\n", 0, said) + 2, data.rfind(b"\n\r\n", 0, said) + 3)
        if cut < 3:
            return self._sift(data)
        before = data[:cut]
        self._count(before)
        return before + self._sift(data[cut:])

    def _sift(self, data: bytes) -> bytes:
        kept = []
        begin = 0
        for border in _END.finditer(data):
            event = data[begin : border.end()]
            begin = border.end()
            if self._is_hidden(event):
                continue
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
        data = b"\n".join(_DATA.findall(event))
        try:
            read = _event.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return False
        usage = read.usage if read.response is None else read.response.usage
        if usage is not None:
            self.usage = usage
            return self._hide_usage and read.choices == []
        return self._hide_progress and bool(read.prompt_progress)
