"""`host:port` as people write it."""

import ipaddress

from llmgw.base.errors import Usage

_PORT_MOST = 65535
_IN_NAMES = "-._"
_IN_BRACKETS = "an IPv6 address stands in brackets, like"


def host_and_port(
    text: str, what: str = "", *, listening: bool = False, example: str = ""
) -> tuple[str, int]:
    """Return the two parts of `host:port` or `[v6 address]:port`.

    Args:
        text: what was written.
        what: the field that it was written for, told in the error.
        listening: port 0 will do: it takes a free one.
        example: for the hint; empty: a control plane's, of its link or its own port.

    Raises:
        Usage: it is not of that form.
    """
    host, colon, port = text.rpartition(":")
    example = example or ("127.0.0.1:7441" if listening else "head-1:7442")
    hint = f"write it like {example}"
    if "," in text:
        hint = f"one address each, like {example}"
    elif "://" in text:
        hint = f"without {text.partition('://')[0]}://, like {example}"
    elif ":" in host and not host.startswith("["):
        hint = f"{_IN_BRACKETS} [::1]:{port or 7442}"
    if not colon or not _is_host(host) or not _is_port(port, 0 if listening else 1):
        field = f"{what}: " if what else ""
        raise Usage(f"{field}{text!r} is not an address", hint=hint)
    return host.removeprefix("[").removesuffix("]"), int(port)


def joined(host: str, port: int) -> str:
    """Return `host:port`, a v6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_host(host: str) -> bool:
    """Say whether it is a name, a v4 address, or a v6 address in brackets."""
    if host.startswith("["):
        try:
            return host.endswith("]") and bool(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return False
    return bool(host) and all(one.isalnum() or one in _IN_NAMES for one in host)


def _is_port(port: str, least: int) -> bool:
    return port.isascii() and port.isdecimal() and least <= int(port[:6]) <= _PORT_MOST
