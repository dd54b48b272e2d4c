"""Which control plane a command speaks to, and with what token.

Every `llmgw ctl` pays for this module's imports, so it needs neither PyYAML nor msgspec: the file
is written as JSON, which is YAML too, and read as that. Whatever is not exactly of that form (a
person may write any YAML) goes through the strict reader of `llmgw.client.contextfile`.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from llmgw.base.errors import NotFound, Unreadable, Usage
from llmgw.base.places import private_dir, read_private
from llmgw.base.secrets import Secret

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")


class Entry(NamedTuple):
    """One context of the file."""

    server: str
    token_file: str | None = None


class Contexts(NamedTuple):
    """What the file holds."""

    current: str | None
    contexts: dict[str, Entry]


class Context(NamedTuple):
    """A control plane to speak to. `name` is None when no context of the file was used."""

    name: str | None
    server: str
    """`http://host:port`, without a slash at its end."""
    token: Secret | None
    """None: requests go without one."""


def config_path(environ: Mapping[str, str]) -> Path:
    """Return where the contexts' file lies, whether it is there or not."""
    home = Path(environ.get("HOME") or "/")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "llmgw" / "config.yaml"


def read(path: Path) -> Contexts:
    """Return the contexts of a file; none when there is no such file.

    Raises:
        Unreadable: an unknown field, a wrong type, a server that is no address; with its path.
        Refused: others may read the file, or it belongs to somebody else.
    """
    try:
        text = read_private(path).decode()
    except NotFound:
        return Contexts(current=None, contexts={})
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path}: not text: {error.reason} at byte {error.start}") from error
    found = _plain(text) or _strict(text, str(path))
    for name, entry in found.contexts.items():
        check_name(name, f"{path}: contexts")
        check_server(entry.server, f"{path}: contexts.{name}.server")
    return found


def choose(
    environ: Mapping[str, str],
    *,
    context: str | None = None,
    server: str | None = None,
    token_file: str | None = None,
) -> Context:
    """Return whom to speak to: what was typed > `LLMGW_*` > the file's current context.

    A token belongs to a server: the token of a context is sent to that context's server alone, so
    a server that was typed or stands in `LLMGW_SERVER` needs a token from there too.

    Raises:
        Usage: nothing says which control plane is meant.
        NotFound: there is no such context, or no such token file.
    """
    token = _said_token(environ, token_file)
    typed = server or (None if context else environ.get("LLMGW_SERVER")) or None
    if typed is not None:
        where = "--server" if server else "LLMGW_SERVER"
        return Context(name=None, server=check_server(typed, where), token=token)
    path = config_path(environ)
    found = read(path)
    name = context or environ.get("LLMGW_CONTEXT") or found.current
    if name is None:
        raise Usage(
            f"no control plane was named, and {path} has no current context",
            hint="`llmgw context add NAME http://HOST:7441 --token-file FILE`, or set LLMGW_SERVER",
        )
    entry = found.contexts.get(name)
    if entry is None:
        known = ", ".join(sorted(found.contexts)) or "none"
        raise NotFound(f"{path}: no context {name!r}", hint=f"there are: {known}")
    if token is None and entry.token_file is not None:
        token = read_token(Path(entry.token_file).expanduser())
    return Context(name=name, server=entry.server.rstrip("/"), token=token)


def read_token(path: Path) -> Secret:
    """Return the token that a private file holds.

    Raises:
        NotFound: there is no such file.
        Refused: others may read it, or it belongs to somebody else.
        Unreadable: it holds no token.
    """
    text = read_private(path).decode(errors="replace").strip()
    if not _TOKEN.fullmatch(text):
        raise Unreadable(f"{path}: holds no token")
    return Secret(text)


def save(
    path: Path, name: str, server: str, token_file: Path | None, *, current: bool = True
) -> None:
    """Add or replace one context; `current` makes it the one that is used.

    Raises:
        Unreadable: the file that is there can't be read, or the name or server is not right.
        Refused: the folder or the file lets others in.
    """
    check_name(name, "context")
    check_server(server, f"context {name}")
    found = read(path)
    entry = Entry(server=server.rstrip("/"), token_file=str(token_file) if token_file else None)
    chosen = name if current or found.current is None else found.current
    write(path, Contexts(current=chosen, contexts={**found.contexts, name: entry}))


def use(path: Path, name: str) -> None:
    """Make a context the one that is used.

    Raises:
        NotFound: there is none of that name.
    """
    found = read(path)
    if name not in found.contexts:
        known = ", ".join(sorted(found.contexts)) or "none"
        raise NotFound(f"{path}: no context {name!r}", hint=f"there are: {known}")
    write(path, found._replace(current=name))


def remove(path: Path, name: str) -> None:
    """Remove a context; the token's file stays.

    Raises:
        NotFound: there is none of that name.
    """
    found = read(path)
    if name not in found.contexts:
        raise NotFound(f"{path}: no context {name!r}")
    rest = {key: entry for key, entry in found.contexts.items() if key != name}
    current = None if found.current == name else found.current
    write(path, Contexts(current=current, contexts=rest))


def write(path: Path, contexts: Contexts) -> None:
    """Replace the file in one step, mode 0600, in a folder of mode 0700."""
    private_dir(path.parent)
    entries = {
        name: {key: value for key, value in entry._asdict().items() if value is not None}
        for name, entry in contexts.contexts.items()
    }
    value = {"current": contexts.current, "contexts": entries}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def check_name(name: str, where: str) -> str:
    """Return a context's name when it can be one."""
    if not _NAME.fullmatch(name):
        raise Unreadable(f"{where}: {name!r} is not a name", hint="at most 64 of A-Z a-z 0-9 . _ -")
    return name


def check_server(server: str, where: str) -> str:
    """Return an address `http(s)://host[:port]` without a slash at its end.

    Raises:
        Unreadable: it is something else; a name and password in it are refused too.
    """
    hint = "write it like http://127.0.0.1:7441"
    try:
        parts = urlsplit(server)
        # Reading the port is what makes urlsplit look at it.
        told = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError as error:
        raise Unreadable(f"{where}: {server!r}: {error}", hint=hint) from error
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if not told or extra or not server.isprintable() or " " in server:
        raise Unreadable(f"{where}: {server!r} is not a server's address", hint=hint)
    return server.rstrip("/")


def _said_token(environ: Mapping[str, str], token_file: str | None) -> Secret | None:
    if token_file:
        return read_token(Path(token_file).expanduser())
    if text := environ.get("LLMGW_TOKEN", "").strip():
        if not _TOKEN.fullmatch(text):
            raise Unreadable("LLMGW_TOKEN: is not a token")
        return Secret(text)
    if file := environ.get("LLMGW_TOKEN_FILE"):
        return read_token(Path(file).expanduser())
    return None


def _plain(text: str) -> Contexts | None:
    """Return what `write` wrote; None for anything else, which the strict reader judges."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.keys() != {"current", "contexts"}:
        return None
    current, contexts = value["current"], value["contexts"]
    if not isinstance(current, str | None) or not isinstance(contexts, dict):
        return None
    entries = {name: _plain_entry(entry) for name, entry in contexts.items()}
    if None in entries.values():
        return None
    return Contexts(current, {name: entry for name, entry in entries.items() if entry is not None})


def _plain_entry(entry: object) -> Entry | None:
    if not isinstance(entry, dict) or "server" not in entry:
        return None
    if not entry.keys() <= {"server", "token_file"}:
        return None
    if not all(isinstance(value, str) for value in entry.values()):
        return None
    return Entry(**entry)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is there twice")
    return value


def _strict(text: str, where: str) -> Contexts:
    from llmgw.client.contextfile import read_strict  # the slow way is loaded when it is needed

    found = read_strict(text, where)
    entries = {
        name: Entry(server=entry.server, token_file=entry.token_file)
        for name, entry in found.contexts.items()
    }
    return Contexts(current=found.current, contexts=entries)
