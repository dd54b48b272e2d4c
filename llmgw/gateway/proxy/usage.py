"""What an engine says that a reply used."""

from typing import Annotated

import msgspec

Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
WHOLE_MOST = 4 << 20
"""Bytes of a reply that are kept to read its usage from; of a longer one only the end is."""
END_MOST = 64 << 10
BYTES_A_TOKEN = 4
"""What an estimate takes a token for."""


class Usage(msgspec.Struct, frozen=True):
    """Token counts as an engine gave them; None: it said nothing. A zero it said is a zero.

    The Responses API has other names for the first two: they are read under these.
    """

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None

    def __post_init__(self) -> None:
        if self.prompt_tokens is None and self.input_tokens is not None:
            msgspec.structs.force_setattr(self, "prompt_tokens", self.input_tokens)
        if self.completion_tokens is None and self.output_tokens is not None:
            msgspec.structs.force_setattr(self, "completion_tokens", self.output_tokens)


class _Reply(msgspec.Struct):
    usage: Usage | None = None


class Event(msgspec.Struct):
    """What is read of an event's data."""

    usage: Usage | None = None
    response: _Reply | None = None
    """Where an event of the Responses API has it."""
    choices: list[msgspec.Raw] | None = None
    prompt_progress: msgspec.Raw = msgspec.Raw(b"")


_reply = msgspec.json.Decoder(_Reply)
_usage = msgspec.json.Decoder(Usage)
_event = msgspec.json.Decoder(Event)


def usage_of_reply(body: bytes) -> Usage | None:
    """Return the usage that a whole JSON reply holds; None when it holds none that can be read."""
    try:
        return _reply.decode(body).usage
    except (msgspec.DecodeError, RecursionError):
        return None


def read_event(data: bytes) -> Event | None:
    """Return what an event's data says; None when it is not JSON of that form."""
    try:
        return _event.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def usage_of_end(end: bytes) -> Usage | None:
    """Return the usage in the last bytes of a JSON reply that is too long to be kept."""
    at = end.rfind(b'"usage"')
    begin = end.find(b"{", at)
    if at < 0 or begin < 0:
        return None
    depth = 0
    for place in range(begin, min(len(end), begin + 2048)):
        depth += {0x7B: 1, 0x7D: -1}.get(end[place], 0)
        if depth == 0:
            try:
                return _usage.decode(end[begin : place + 1])
            except msgspec.DecodeError:
                return None
    return None


class WholeReply:
    """Watches a reply that is not a stream of events pass, and reads its usage at the end."""

    __slots__ = ("_parts", "_size", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.size = 0
        """Bytes that went by."""

    def feed(self, data: bytes) -> bytes:
        """Return what is passed on: all of it."""
        self.size += len(data)
        self._size += len(data)
        self._parts.append(data)
        if self._size > WHOLE_MOST:
            end = b"".join(self._parts)[-END_MOST:]
            self._parts = [end]
            self._size = len(end)
        return data

    def rest(self) -> bytes:
        """Return what was held back: nothing."""
        return b""

    @property
    def usage(self) -> Usage | None:
        """Return what the engine said; None when it said nothing that can be read."""
        body = b"".join(self._parts)
        return usage_of_reply(body) if self.size == len(body) else usage_of_end(body)

    @property
    def produced(self) -> int:
        """Return an estimate of the tokens that went by."""
        return -(-self.size // BYTES_A_TOKEN)
