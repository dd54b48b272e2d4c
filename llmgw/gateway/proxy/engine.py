"""One connection to an engine: replies are parsed strictly, only bodies leave this module."""

import asyncio
from typing import Final, Protocol, cast

import httptools

HEAD_BYTES = 64 << 10


class Reader(Protocol):
    """Who waits for an engine's reply. Nothing is called after `reply_broken` or `reply_end`."""

    def reply_head(
        self, status: int, headers: list[tuple[bytes, bytes]], length: int | None
    ) -> None:
        """Take the head; `length` is the body's, None when the engine did not say."""
        ...

    def reply_piece(self, data: bytes) -> None:
        """Take a piece of the body, not the last."""
        ...

    def reply_end(self, data: bytes) -> None:
        """Take the last piece of the body, which may be empty."""
        ...

    def reply_broken(self, words: str, *, untouched: bool) -> None:
        """The connection ended too early; `untouched`: no byte of a reply had come."""
        ...


class EngineConnection(asyncio.Protocol):
    """Carries one request at a time.

    What comes after the end of a reply, or while nobody waits, is never passed on: the connection
    is not used again.
    """

    __slots__ = (
        "_broken",
        "_chunked",
        "_done",
        "_flows",
        "_head_bytes",
        "_head_told",
        "_headers",
        "_interim",
        "_keep",
        "_length",
        "_parser",
        "_parts",
        "_poisoned",
        "_reader",
        "_status",
        "_touched",
        "_transport",
        "_whole",
        "idle_since",
        "on_body",
        "on_idle_lost",
        "reused",
    )

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._parts: list[bytes] = []
        # Looked up by the parser, which calls it for each chunk: a method costs more than a chunk.
        self.on_body: Final = self._parts.append
        self._parser = httptools.HttpResponseParser(self)
        self.reused = False
        """It carried a request before, so that the engine may have closed it meanwhile."""
        self.idle_since = 0.0
        self.on_idle_lost: IdleLost | None = None
        self._poisoned = False
        self._begin()

    def _begin(self) -> None:
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._head_told = False
        self._length: int | None = None
        self._chunked = False
        self._interim = False
        self._keep = False
        self._done = False
        self._whole = 0
        """Pieces of the body that there were when it was done."""
        self._flows = False
        """In the middle of a body: what comes is passed on and nothing else happens."""
        self._touched = False
        self._broken = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def send(self, reader: Reader, head: bytes, body: bytes) -> None:
        """Send a request and hand its reply to `reader`."""
        self._begin()
        self._reader = reader
        if len(body) < 32 << 10:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    @property
    def usable(self) -> bool:
        """Say whether another request may be sent."""
        return self._reader is None and not self._poisoned and not self._transport.is_closing()

    def drop(self) -> None:
        """Break the connection and tell nobody: whoever waited went away."""
        self._reader = None
        self._transport.abort()

    def close(self) -> None:
        """Close a connection on which nothing runs."""
        self._transport.close()

    def pause(self) -> None:
        """Take nothing more from the engine for now."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Take from the engine again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        """Read a part of a reply and pass its body on, in one piece."""
        reader = self._reader
        if reader is None:
            self._transport.abort()
            return
        self._touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours, not of the engine
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._poisoned = True
            self._flows = False
            if not self._done:
                self._broken = f"not acceptable HTTP: {error}"
        if not self._flows:
            self._tell(reader)
            return
        parts = self._parts
        if parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            reader.reply_piece(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that the reply ends here."""
        reader, self._reader = self._reader, None
        if reader is None:
            if self.on_idle_lost is not None:
                self.on_idle_lost.idle_lost(self)
        elif self._head_told and not self._framed and exc is None:
            reader.reply_end(b"")
        else:
            words = f"the engine's connection broke: {exc}" if exc else "the engine closed early"
            reader.reply_broken(words, untouched=not self._touched)

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Note that a reply begins; a second one was not asked for."""
        if self._done:
            self._poisoned = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head."""
        if self._done:
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES:
            self._broken = "a head of more than 64 KiB"
            self._flows = False  # it may be the trailers
        if self._head_told or self._broken:
            return
        lowered = name.lower()
        if lowered == b"content-length":
            self._length = int(value)
        elif lowered == b"transfer-encoding":
            self._chunked = value.strip().lower() == b"chunked"
            if not self._chunked:
                self._broken = "a transfer encoding other than chunked"
        else:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the head."""
        if self._done:
            return
        self._status = self._parser.get_status_code()
        self._interim = 100 <= self._status < 200
        self._keep = self._parser.should_keep_alive()  # forgotten once the reply is complete

    def on_message_complete(self) -> None:
        """Note the end of a reply; one that only says to go on is none."""
        if self._done:
            return
        if self._interim:
            self._headers = []
            self._interim = False
            self._status = 0
            return
        self._done = True
        self._flows = False
        self._whole = len(self._parts)

    # Telling.

    @property
    def _framed(self) -> bool:
        return self._length is not None or self._chunked or self._status in {204, 304}

    def _tell(self, reader: Reader) -> None:
        """Tell the reader what the last bytes brought, at the beginning of a reply or its end."""
        if not self._broken and not self._head_told and self._status and not self._interim:
            self._head_told = True
            headers, self._headers = self._headers, []
            reader.reply_head(self._status, headers, self._length)
            if self._reader is not reader:
                return
            self._flows = not self._done
        data = self._take_parts()
        if self._done and self._head_told:
            self._reader = None
            self._settle()
            reader.reply_end(data)
        elif self._broken:
            self._reader = None
            self._transport.abort()
            reader.reply_broken(self._broken, untouched=False)
        elif data:
            reader.reply_piece(data)

    def _take_parts(self) -> bytes:
        """Return the pieces of the body that came, as one; what stands behind its end is none."""
        parts = self._parts
        if self._poisoned:
            del parts[self._whole :]
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return data

    def _settle(self) -> None:
        """Decide whether the connection may carry another request."""
        self.reused = True
        if self._poisoned or not self._keep or not self._framed:
            self._poisoned = True
            self._transport.close()


class IdleLost(Protocol):
    """Who keeps idle connections."""

    def idle_lost(self, connection: EngineConnection) -> None:
        """Forget a connection that the engine closed."""
        ...
