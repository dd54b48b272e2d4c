"""Server-sent events: bytes in, events out. Pure."""

from typing import NamedTuple

from llmgw.base.errors import Unreadable


class SentEvent(NamedTuple):
    """One event: its name (`message` unless said) and its data."""

    name: str
    data: bytes


class EventReader:
    """Cuts a stream of bytes into events; comments and unknown fields are skipped.

    Holds at most one unfinished event.

    Args:
        most: bytes that an event may have.
    """

    def __init__(self, most: int = 256 << 20) -> None:
        self._most = most
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[SentEvent]:
        """Return the events that this piece completes.

        Raises:
            Unreadable: an event is larger than `most` bytes.
        """
        lines = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        self._rest = lines.pop()
        events = [event for line in lines if (event := self._line(line.rstrip(b"\r")))]
        if self._size + len(self._rest) > self._most:
            raise Unreadable(f"an event of more than {self._most} bytes")
        return events

    def _line(self, line: bytes) -> SentEvent | None:
        if not line:
            return self._finish()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif field == b"event":
            self._name = value.decode(errors="replace")
        return None

    def _finish(self) -> SentEvent | None:
        event = SentEvent(self._name or "message", b"\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = "", [], 0
        return event
