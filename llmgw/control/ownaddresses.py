"""The addresses that this machine answers to, for the certificate that covers them."""

import ipaddress
import re
import socket
from pathlib import Path

from llmgw.base.errors import NotFound
from llmgw.base.world import Files

WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not listened on

_FIB_TRIE = Path("/proc/net/fib_trie")
_IF_INET6 = Path("/proc/net/if_inet6")
_LOCAL = re.compile(r"\|-- (?P<address>[0-9.]+)\n\s+/32 host LOCAL")


def own_addresses(files: Files, hostname: str) -> tuple[str, ...]:
    """Return the host name and every global address of this machine, loopback left out."""
    found = [hostname, *_v4(_text(files, _FIB_TRIE)), *_v6(_text(files, _IF_INET6))]
    return tuple(dict.fromkeys(found))


def host_name() -> str:
    """Return this machine's name, lower case."""
    return socket.gethostname().lower()


def _v4(text: str) -> list[str]:
    addresses = sorted({match["address"] for match in _LOCAL.finditer(text)})
    return [one for one in addresses if not ipaddress.ip_address(one).is_loopback]


def _v6(text: str) -> list[str]:
    found: list[str] = []
    for line in text.splitlines():
        digits = line.split(" ", 1)[0]
        if re.fullmatch(r"[0-9a-f]{32}", digits):
            address = ipaddress.IPv6Address(int(digits, 16))
            if not (address.is_loopback or address.is_link_local):
                found.append(str(address))
    return sorted(found)


def _text(files: Files, path: Path) -> str:
    try:
        return files.read(path).decode(errors="replace")
    except (NotFound, OSError):
        return ""
