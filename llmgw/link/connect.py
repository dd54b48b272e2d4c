"""Connecting to a control plane, and what can go wrong before the first message, in words."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from typing import Any, Final

import grpclib.client
from grpclib.protocol import H2Protocol

from llmgw.base.address import host_and_port
from llmgw.base.errors import LlmgwError, Refused, Unreachable
from llmgw.link.codec import BytesCodec
from llmgw.link.guard import CONFIG, HANDSHAKE_TIMEOUT, SHUTDOWN_TIMEOUT, watch_unacknowledged
from llmgw.link.identity import SERVER, check_role, identity_of
from llmgw.link.plain import check_loopback

CONNECT_TIMEOUT: Final = 10.0

_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_OTHER_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 7})
_OTHER_NAME: Final = frozenset({62, 64})
_PURPOSE: Final = 26

_CLOCKS: Final = "compare the clocks of both machines"


class Dropped(Unreachable):
    """The other side ended the connection before it accepted a stream, and gave no reason."""


class _Protocol(H2Protocol):
    """Keeps why the connection was lost, which grpclib drops: the other side's TLS alert."""

    lost: BaseException | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = exc
        super().connection_lost(exc)


class Connection:
    """A connection that carries one call.

    Args:
        address: where it leads, `host:port`.
        channel: grpclib's, connected.
        protocol: the connection's own.
        transport: the connection's own.
    """

    def __init__(
        self,
        address: str,
        channel: grpclib.client.Channel,
        protocol: _Protocol,
        transport: asyncio.Transport,
    ) -> None:
        self.address = address
        self.channel = channel
        self._protocol = protocol
        self._transport = transport

    def abort(self) -> None:
        """Cut the connection; waits for nothing."""
        # Before CPython 3.11.4 a TLS transport that was closed twice has nothing left to abort, and
        # says so with an AttributeError.
        with contextlib.suppress(AttributeError):
            self._transport.abort()
        self.channel.close()

    def why_lost(self) -> LlmgwError | None:
        """Return what the other side said when it dropped the connection; None when nothing."""
        error = self._protocol.lost
        return _alert(error, self.address) if isinstance(error, ssl.SSLError) else None


async def connect(
    address: str,
    context: ssl.SSLContext | None,
    *,
    timeout: float = CONNECT_TIMEOUT,
    verify: bool = True,
) -> Connection:
    """Connect to a control plane and check that it is one.

    Args:
        address: `host:port`.
        context: TLS; None is plaintext, for loopback alone.
        timeout: seconds.
        verify: False for asking for the CA, when nobody is believed yet.

    Raises:
        Unreachable: nobody answers there, or nobody that speaks TLS.
        Refused: who answers is not a control plane of this cluster.
        Usage: the address is none.
    """
    host, port = host_and_port(address)
    if context is None:
        check_loopback(host)
    channel = grpclib.client.Channel(host, port, codec=BytesCodec(), ssl=context, config=CONFIG)
    try:
        async with asyncio.timeout(timeout):
            transport, protocol = await _open(channel, host, port, context)
    except TimeoutError as error:
        raise Unreachable(f"{address}: no answer within {timeout:g} s") from error
    except OSError as error:
        raise _refusal(error, address, host) from error
    watch_unacknowledged([transport.get_extra_info("socket")])
    connection = Connection(address, channel, protocol, transport)
    channel._protocol = protocol  # noqa: SLF001 -- grpclib would connect without a timeout
    if context is not None and verify:
        _check_server(connection, transport.get_extra_info("ssl_object"))
    return connection


async def _open(
    channel: grpclib.client.Channel, host: str, port: int, context: ssl.SSLContext | None
) -> tuple[Any, _Protocol]:
    def protocol() -> _Protocol:
        handler = grpclib.client.Handler()
        return _Protocol(handler, channel._config, channel._h2_config)  # noqa: SLF001

    return await asyncio.get_running_loop().create_connection(
        protocol,
        host,
        port,
        ssl=context,
        server_hostname=host if context is not None else None,
        ssl_handshake_timeout=HANDSHAKE_TIMEOUT if context is not None else None,
        ssl_shutdown_timeout=SHUTDOWN_TIMEOUT if context is not None else None,
    )


def _check_server(connection: Connection, tls: ssl.SSLObject) -> None:
    try:
        check_role(identity_of(tls.getpeercert()), SERVER)
    except Refused as error:
        connection.abort()
        raise Refused(f"{connection.address}: not a control plane: {error.message}") from error


def _refusal(error: OSError, address: str, host: str) -> LlmgwError:
    """Return why connecting failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error, address, host)
    if isinstance(error, ssl.SSLError):
        return _alert(error, address) or Unreachable(
            f"{address}: what answers there does not speak TLS 1.3 ({error.reason or error})",
            hint="is it the link's port (7442), not the admin API's?",
        )
    if isinstance(error, socket.gaierror):
        return Unreachable(f"{address}: the name {host!r} can't be resolved")
    # A name with several addresses fails with the text of all failures and no number.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return Unreachable(
            f"{address}: connection refused",
            hint="is `llmgw server` running there, and is this its link's port?",
        )
    if isinstance(error, ConnectionError):
        return Unreachable(f"{address}: the connection was lost while it was made")
    words = os.strerror(error.errno) if error.errno else str(error)
    return Unreachable(f"{address}: not reachable: {words}")


def _distrust(error: ssl.SSLCertVerificationError, address: str, host: str) -> LlmgwError:
    """Return why the certificate that answered is not believed."""
    code = error.verify_code
    if code == _EXPIRED:
        return Refused(f"{address}: the control plane's certificate ended", hint=_CLOCKS)
    if code == _NOT_YET_VALID:
        return Refused(f"{address}: the control plane's certificate is not valid yet", hint=_CLOCKS)
    if code in _OTHER_AUTHORITY:
        return Refused(
            f"{address}: the certificate that answers is of another cluster's CA",
            hint="is this the right address? Otherwise join again with a new token",
        )
    if code in _OTHER_NAME:
        return Refused(
            f"{address}: the control plane's certificate does not cover {host!r}",
            hint="add it to the server's `addresses`, or use an address that is among them",
        )
    if code == _PURPOSE:
        return Refused(f"{address}: what answers shows a certificate that is no control plane's")
    return Refused(f"{address}: the certificate that answers is not valid: {error.verify_message}")


def _alert(error: ssl.SSLError, address: str) -> LlmgwError | None:
    """Return what the other side's TLS alert says of our certificate; None when it says nothing."""
    reason = error.reason or ""
    if "ALERT" not in reason:
        return None
    again = "join again with a new token"
    if "CERTIFICATE_EXPIRED" in reason:
        return Refused(f"{address}: this machine's certificate ended", hint=f"{again}; {_CLOCKS}")
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason or "DECRYPT_ERROR" in reason:
        return Refused(
            f"{address}: this machine's certificate is of another cluster's CA", hint=again
        )
    said = reason.replace("_", " ").lower()
    return Refused(f"{address}: the control plane refused the TLS connection ({said})", hint=again)
