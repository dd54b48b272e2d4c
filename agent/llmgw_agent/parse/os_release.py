"""/etc/os-release: the operating system's name."""

from llmgw.base.errors import Unreadable

_QUOTES = "\"'"


def read_os_release(text: str) -> str:
    """Return the name for people: `Debian GNU/Linux 12 (bookworm)`.

    Raises:
        Unreadable: it names no system.
    """
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            fields[name] = _unquoted(value)
    known = fields.get("PRETTY_NAME") or fields.get("NAME") or fields.get("ID")
    if not known:
        raise Unreadable(f"/etc/os-release: no name in {text[:60]!r}")
    return known


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] in _QUOTES and value[-1] == value[0]:
        value = value[1:-1]
    return value.replace('\\"', '"').replace("\\$", "$").replace("\\\\", "\\")
