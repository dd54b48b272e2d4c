"""`host:port` as people write it."""

from llmgw.base.errors import Usage

_PORT_MOST = 65535


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
    host = host.removeprefix("[").removesuffix("]")
    least = 0 if listening else 1
    if not colon or not host or not port.isdecimal() or not least <= int(port) <= _PORT_MOST:
        field = f"{what}: " if what else ""
        example = example or ("127.0.0.1:7441" if listening else "head-1:7442")
        raise Usage(f"{field}{text!r} is not an address", hint=f"write it like {example}")
    return host, int(port)


def joined(host: str, port: int) -> str:
    """Return `host:port`, a v6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
