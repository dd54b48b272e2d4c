"""What a written model must mean, beyond its shape: every problem, each with its path (PLC-1)."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from llmgw.model.catalog import (
    DISCONNECT_POLICIES,
    ON_RETURN,
    SIMULATED,
    Adapter,
    Disconnect,
    HubSource,
    MirrorSource,
    Model,
    PackageSource,
    PathSource,
    Source,
    UrlSource,
)
from llmgw.model.profile_check import problems_of
from llmgw.model.record import Problem

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[\w][\w./-]{0,199}", re.ASCII)
_NAME_MOST = 200
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_PICKLE = "is a pickle, which can run code; set allow_pickle: true to let it in"
_DAYS_30 = 30 * 86_400.0


def check_model(model: Model) -> tuple[Problem, ...]:
    """Return every problem of a model, each with its path; empty when there is none."""
    return tuple(_model(model))


def check_sha256(path: str, text: str) -> Iterator[Problem]:
    """Yield what is wrong with a sha256 as people write it."""
    if not _SHA256.fullmatch(text):
        yield Problem(path=path, words=f"{text!r} is not a sha256 (64 hexadecimal digits)")


def _model(model: Model) -> Iterator[Problem]:
    yield from _name("name", model.name)
    if not model.profiles:
        yield Problem(path="profiles", words="at least one profile is needed")
    if model.source is not None:
        yield from _source("source", model.source, allow_pickle=model.allow_pickle)
    yield from _adapters(model.adapters, model)
    yield from _disconnect(model.disconnect)
    if model.generation < 0:
        yield Problem(path="generation", words="counts upwards from 0")
    seen: set[str] = set()
    for number, profile in enumerate(model.profiles):
        path = f"profiles[{number}]"
        if profile.name in seen:
            yield Problem(path=f"{path}.name", words=f"{profile.name!r} is there twice")
        seen.add(profile.name)
        if model.source is None and profile.engine != SIMULATED:
            yield Problem(path="source", words=f"the engine {profile.engine!r} needs weights")
        yield from problems_of(profile, path)


def _name(path: str, name: str) -> Iterator[Problem]:
    if not name.strip() or name != name.strip():
        yield Problem(path=path, words="must not be empty or begin or end with a space")
    if len(name) > _NAME_MOST or not name.isprintable():
        yield Problem(path=path, words=f"at most {_NAME_MOST} printable characters")


def _adapters(adapters: Sequence[Adapter], model: Model) -> Iterator[Problem]:
    """Adapters share the names of models: each is asked for by its own (ENG-12)."""
    seen = {model.name}
    for number, adapter in enumerate(adapters):
        path = f"adapters[{number}]"
        yield from _name(f"{path}.name", adapter.name)
        if adapter.name in seen:
            words = f"{adapter.name!r} is the name of something else here"
            yield Problem(path=f"{path}.name", words=words)
        seen.add(adapter.name)
        yield from _source(f"{path}.source", adapter.source, allow_pickle=model.allow_pickle)


def _disconnect(said: Disconnect) -> Iterator[Problem]:
    if said.policy not in DISCONNECT_POLICIES:
        words = f"{said.policy!r} is none of {', '.join(DISCONNECT_POLICIES)}"
        yield Problem(path="disconnect.policy", words=words)
    if said.on_return not in ON_RETURN:
        words = f"{said.on_return!r} is none of {', '.join(ON_RETURN)}"
        yield Problem(path="disconnect.on_return", words=words)
    if not 0 <= said.after <= _DAYS_30:
        words = f"{said.after:g} is not between 0 and {_DAYS_30:g} seconds"
        yield Problem(path="disconnect.after", words=words)


def _source(path: str, source: Source, *, allow_pickle: bool) -> Iterator[Problem]:
    match source:
        case PackageSource():
            yield from _package(path, source)
        case UrlSource():
            yield from _url(path, source, allow_pickle=allow_pickle)
        case HubSource():
            yield from _hub(path, source, allow_pickle=allow_pickle)
        case PathSource(path=where):
            if not where.startswith("/") or not where.isprintable() or ".." in where.split("/"):
                words = f"{where!r} is not a whole path on the node: /srv/models/name.gguf"
                yield Problem(path=f"{path}.path", words=words)
        case MirrorSource(name=name):
            yield from _name(f"{path}.name", name)


def _package(path: str, source: PackageSource) -> Iterator[Problem]:
    if not source.packages:
        yield Problem(path=f"{path}.packages", words="at least one package is needed")
    if not source.parts:
        yield Problem(path=f"{path}.parts", words="at least one part is needed")
    if "/" in source.file or source.file in {"", ".", ".."}:
        yield Problem(path=f"{path}.file", words=f"{source.file!r} is not a file name")
    yield from check_sha256(f"{path}.sha256", source.sha256)
    for number, package in enumerate(source.packages):
        yield from check_sha256(f"{path}.packages[{number}].sha256", package.sha256)


def _url(path: str, source: UrlSource, *, allow_pickle: bool) -> Iterator[Problem]:
    if not source.url.startswith(("https://", "http://")):
        yield Problem(path=f"{path}.url", words=f"{source.url!r} is not an http(s) address")
    if source.sha256 is not None:
        yield from check_sha256(f"{path}.sha256", source.sha256)
    if _is_pickle(source.url) and not allow_pickle:
        yield Problem(path=f"{path}.url", words=_PICKLE)


def _hub(path: str, source: HubSource, *, allow_pickle: bool) -> Iterator[Problem]:
    if not _REPOSITORY.fullmatch(source.repository):
        words = f"{source.repository!r} is not a repository: organisation/name"
        yield Problem(path=f"{path}.repository", words=words)
    if source.revision is not None and not _REVISION.fullmatch(source.revision):
        words = f"{source.revision!r} is not a branch, a tag or a commit"
        yield Problem(path=f"{path}.revision", words=words)
    for number, pattern in enumerate(source.files):
        where = f"{path}.files[{number}]"
        if pattern.startswith("/") or ".." in pattern.split("/") or not pattern.isprintable():
            words = f"{pattern!r} is not a pattern of files in a repository"
            yield Problem(path=where, words=words)
        if not allow_pickle and _names_pickles(pattern):
            yield Problem(path=where, words=_PICKLE)


def _is_pickle(name: str) -> bool:
    return name.lower().partition("?")[0].endswith(_PICKLES)


def _names_pickles(pattern: str) -> bool:
    """Say whether a pattern is made for pickles: `*` alone is not, its pickles are left out."""
    tail = pattern.rpartition(".")[2].lower()
    return "." in pattern and any(fnmatchcase(one[1:], tail) for one in _PICKLES)
