"""The file of a gateway without a control plane: models, their endpoints, keys (GW-7)."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.places import check_ours
from llmgw.gateway.table import Table, config_of
from llmgw.model.check import check_settings
from llmgw.model.faulty import Faulty
from llmgw.model.keys import Key
from llmgw.model.published import published
from llmgw.model.publishing import Provider, PublicRoute, Publishing, StaticEndpoint
from llmgw.model.publishing_check import check_publishing
from llmgw.model.record import Problem, Written
from llmgw.model.settings import GatewaySettings, Settings
from llmgw.model.written import read_yaml

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEY_ID = re.compile(r"[A-Za-z0-9]{1,64}")


class FileKey(Written, frozen=True, kw_only=True):
    """An API key: who has it, and a hash of it. Limits as of a cluster's keys."""

    id: str
    """As it stands in the key: `llmgw_<id>_<secret>`."""
    sha256: str
    """Of the whole key, hexadecimal."""
    name: str = ""
    models: tuple[str, ...] | None = None
    """Those that it may use; None: all."""
    expires: float | None = None
    """Seconds since the epoch."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    concurrent: int | None = None
    priority: int = 0


class EndpointsFile(Written, frozen=True, kw_only=True):
    """All that a gateway without a control plane is told."""

    models: dict[str, tuple[StaticEndpoint, ...]] = msgspec.field(default_factory=dict)
    """Endpoints by the model that they serve."""
    routes: dict[str, PublicRoute] = msgspec.field(default_factory=dict)
    providers: dict[str, Provider] = msgspec.field(default_factory=dict)
    keys: tuple[FileKey, ...] = ()
    settings: GatewaySettings = GatewaySettings()


def read_file(path: Path) -> EndpointsFile:
    """Return what a file says.

    Raises:
        NotFound: there is no such file.
        Unreadable: it can't be read, or what it says can't be: with the place and the words.
        Refused: others may write it.
    """
    try:
        check_ours(path)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path}: can't be read: {error}") from error
    file = read_yaml(text, EndpointsFile, str(path), meaning=check_file)
    problems = check_file(file)
    if problems:
        raise Faulty(str(path), problems)
    return file


def check_file(file: EndpointsFile) -> tuple[Problem, ...]:
    """Return every problem of a file, each with its path."""
    found = tuple(
        msgspec.structs.replace(one, path=re.sub(r"^endpoints\.", "models.", one.path))
        for one in check_publishing(_publishing(file))
    )
    return (*found, *_settings(file.settings), *_keys(file))


def table_of(file: EndpointsFile) -> Table:
    """Return the table that a file stands for."""
    routes = published((), _publishing(file))
    keys = (
        Key(
            id=one.id,
            name=one.name or one.id,
            sha256=one.sha256,
            created=0.0,
            expires=one.expires,
            models=one.models,
            requests_per_minute=one.requests_per_minute,
            tokens_per_minute=one.tokens_per_minute,
            tokens_per_day=one.tokens_per_day,
            concurrent=one.concurrent,
            priority=one.priority,
        )
        for one in file.keys
    )
    return Table(
        routes={route.model: route for route in routes},
        keys={key.id: key for key in keys},
        config=config_of(file.settings),
    )


def _publishing(file: EndpointsFile) -> Publishing:
    return Publishing(endpoints=file.models, routes=file.routes, providers=file.providers)


def _settings(settings: GatewaySettings) -> Iterator[Problem]:
    for one in check_settings(Settings(gateway=settings)):
        group, _, name = one.path.partition(".")
        if group == "gateway":
            yield Problem(path=f"settings.{name}", words=one.words)


def _keys(file: EndpointsFile) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, key in enumerate(file.keys):
        path = f"keys[{number}]"
        if not _KEY_ID.fullmatch(key.id):
            yield Problem(path=f"{path}.id", words=f"{key.id!r} is not 1 to 64 letters and digits")
        if key.id in seen:
            yield Problem(path=f"{path}.id", words=f"{key.id!r} is there twice")
        seen.add(key.id)
        if not _SHA256.fullmatch(key.sha256):
            words = "is not a sha256: printf %s KEY | sha256sum"
            yield Problem(path=f"{path}.sha256", words=words)
        for limit in ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "concurrent"):
            value = getattr(key, limit)
            if value is not None and value < 1:
                yield Problem(path=f"{path}.{limit}", words="must be 1 or more")
