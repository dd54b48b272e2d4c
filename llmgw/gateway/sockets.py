"""The sockets that users connect to: bound by the parent, handed down, kept through restarts."""

import errno
import socket
from contextlib import suppress
from ipaddress import ip_address

from llmgw.base.address import host_and_port
from llmgw.base.errors import Usage
from llmgw.gateway.config import GatewayServiceConfig

BACKLOG = 4096


def bind_all(listen: str, count: int) -> list[socket.socket]:
    """Return so many listening sockets on one address; the kernel spreads connections over them.

    Port 0 is replaced by a free port, the same for all.

    Raises:
        Usage: the address is in use, is not this machine's, or may not be used by this user.
    """
    host, port = host_and_port(listen, "listen", listening=True)
    try:
        port = _free(host, port)
        return [_listening(host, port) for _ in range(count)]
    except OSError as error:
        raise Usage(f"{listen}: {_words(error)}", hint=_hint(error)) from error


def url_of(config: GatewayServiceConfig, port: int) -> str:
    """Return where users reach a gateway that listens on a port, as far as this machine knows."""
    host, _ = host_and_port(config.listen, "listen", listening=True)
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = own_address(config.control_planes) or socket.gethostname()
    scheme = "http" if config.tls_cert is None and config.tls is None else "https"
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"


def own_address(control_planes: tuple[str, ...]) -> str | None:
    """Return the source address of the route to a control plane; nothing is sent.

    None beside a control plane that is reached over loopback: users are elsewhere.
    """
    for control_plane in control_planes:
        host, port = host_and_port(control_plane, "control_planes")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            address = str(probe.getsockname()[0])
            if not ip_address(address).is_loopback:
                return address
    return None


def _free(host: str, port: int) -> int:
    """Return the port when nobody else listens there.

    SO_REUSEPORT would let this gateway share the port with another one of the same user, unseen.
    """
    with _bound(host, port, share=False) as probe:
        return int(probe.getsockname()[1])


def _listening(host: str, port: int) -> socket.socket:
    bound = _bound(host, port, share=True)
    bound.listen(BACKLOG)
    return bound


def _bound(host: str, port: int, *, share: bool) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.setblocking(False)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use"
    return f"cannot listen there: {error.strerror or error}"


def _hint(error: OSError) -> str | None:
    if error.errno == errno.EADDRINUSE:
        return "is another gateway running? Stop it, or choose another port with --listen"
    return None
