"""What grpclib leaves open: how large a message may be, how a dead connection is noticed and cut.

All of grpclib's and h2's private names that this project touches are used in this room alone, which
is why grpclib is pinned.
"""
# ruff: noqa: SLF001 -- the only place that knows grpclib from inside

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, cast

import grpclib.client
import grpclib.server
from grpclib.config import Configuration

from llmgw.base.errors import Refused, Unreadable

MESSAGE_LIMIT: Final = 8 << 20
JOIN_LIMIT: Final = 64 << 10
"""Bytes of a message from a machine that has no certificate yet."""

CONFIG: Final = Configuration(
    # grpclib's default is one ping in two hours, and at most two without data. The answer may take
    # long: a stream's watchdog is what notices a dead peer; pings keep firewalls from forgetting
    # the connection, and end one that carries no stream.
    _keepalive_time=5.0,
    _keepalive_timeout=20.0,
    _keepalive_permit_without_calls=True,
    _http2_max_pings_without_data=0,
    _http2_min_sent_ping_interval_without_data=1.0,
)

HANDSHAKE_TIMEOUT: Final = 10.0
SHUTDOWN_TIMEOUT: Final = 2.0
"""How long closing waits for the peer's close_notify; asyncio's default is 30 s."""

USER_TIMEOUT_MS: Final = 15_000
"""How long the kernel keeps a connection whose data nobody acknowledges."""

_HEAD: Final = struct.Struct(">BI")


class TooLarge(Refused):
    """A message over the limit: it was not read."""


Raw = grpclib.client.Stream[Any, Any] | grpclib.server.Stream[Any, Any]


async def read_message(raw: Raw, limit: int = MESSAGE_LIMIT) -> bytes | None:
    """Return the next message; None when the peer ended its side.

    grpclib's own reader takes whatever size a peer announces, and keeps what arrives of it.

    Raises:
        TooLarge: the message is larger than `limit`.
        Unreadable: it is compressed, or was cut short.
        StreamTerminatedError: the stream was reset or the connection lost.
    """
    with woken(raw):
        try:
            head = await raw._stream.recv_data(_HEAD.size)
            if not head:
                return None
            compressed, size = _HEAD.unpack(head)
            if compressed:
                raise Unreadable("the message is compressed, and nobody agreed to that")
            if size > limit:
                raise TooLarge(f"a message of {size} bytes, and {limit} is the limit")
            return await raw._stream.recv_data(size)
        except AssertionError as error:
            raise Unreadable("the message was cut short") from error


def woken(raw: Raw) -> AbstractContextManager[None]:
    """Return the context in which a client's wait ends when its connection does.

    A server's handler task is cancelled instead, and ends its helpers itself.
    """
    return getattr(raw, "_wrapper", None) or nullcontext()


def transport_of(raw: Raw) -> asyncio.Transport:
    """Return the connection's transport: its `abort()` is the only end that does not wait."""
    return raw._stream._transport


def peer_of(raw: grpclib.server.Stream[Any, Any]) -> str:
    """Return `host:port` of the peer."""
    address = raw.peer.addr()
    if not address:
        return "unknown"
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def said_status(raw: grpclib.client.Stream[Any, Any]) -> None:
    """Raise the error status that the server sent, if it did."""
    raw._maybe_raise()


def watch_unacknowledged(sockets: Sequence[Any]) -> None:
    """Make the kernel give up connections whose data nobody acknowledges."""
    for sock in sockets:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            cast("socket.socket", sock).setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS
            )
