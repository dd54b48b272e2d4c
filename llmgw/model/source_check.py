"""What a source of weights must mean, beyond its shape: every problem, each with its path."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from llmgw.model.catalog import (
    HubSource,
    MirrorSource,
    PackageRef,
    PackageSource,
    PathSource,
    Source,
    UrlSource,
)
from llmgw.model.record import Problem
from llmgw.model.unread import each

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[\w][\w./-]{0,199}", re.ASCII)
_NAME_MOST = 200
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_PICKLE = "is a pickle, which can run code; set allow_pickle: true to let it in"


def check_sha256(path: str, text: str) -> Iterator[Problem]:
    """Yield what is wrong with a sha256 as people write it."""
    if not _is(_SHA256, text):
        yield Problem(path=path, words=f"{text!r} is not a sha256 (64 hexadecimal digits)")


def check_name(path: str, name: str) -> Iterator[Problem]:
    """Yield what is wrong with a public name."""
    if not name.strip() or name != name.strip():
        yield Problem(path=path, words="must not be empty or begin or end with a space")
    if len(name) > _NAME_MOST or not name.isprintable():
        yield Problem(path=path, words=f"at most {_NAME_MOST} printable characters")


def check_source(path: str, source: Source, *, allow_pickle: bool) -> Iterator[Problem]:
    """Yield every problem of a source; `path` says where it stands."""
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
            yield from check_name(f"{path}.name", name)


def _package(path: str, source: PackageSource) -> Iterator[Problem]:
    yield from each(
        _not_empty(f"{path}.packages", source.packages, "package"),
        _not_empty(f"{path}.parts", source.parts, "part"),
        _file_name(f"{path}.file", source.file),
        check_sha256(f"{path}.sha256", source.sha256),
        _packages(f"{path}.packages", source.packages),
    )


def _not_empty(path: str, listed: Sequence[object], what: str) -> Iterator[Problem]:
    if not listed:
        yield Problem(path=path, words=f"at least one {what} is needed")


def _file_name(path: str, name: str) -> Iterator[Problem]:
    if "/" in name or name in {"", ".", ".."}:
        yield Problem(path=path, words=f"{name!r} is not a file name")


def _packages(path: str, packages: Sequence[PackageRef]) -> Iterator[Problem]:
    for number, package in enumerate(packages):
        yield from each(_package_sha256(f"{path}[{number}].sha256", package))


def _package_sha256(path: str, package: PackageRef) -> Iterator[Problem]:
    yield from check_sha256(path, package.sha256)


def _url(path: str, source: UrlSource, *, allow_pickle: bool) -> Iterator[Problem]:
    yield from each(
        _address(f"{path}.url", source.url),
        _optional_sha256(f"{path}.sha256", source.sha256),
        _pickle_address(f"{path}.url", source.url, allow_pickle=allow_pickle),
    )


def _address(path: str, url: str) -> Iterator[Problem]:
    if not url.startswith(("https://", "http://")):
        yield Problem(path=path, words=f"{url!r} is not an http(s) address")


def _optional_sha256(path: str, text: str | None) -> Iterator[Problem]:
    if text is not None:
        yield from check_sha256(path, text)


def _pickle_address(path: str, url: str, *, allow_pickle: bool) -> Iterator[Problem]:
    if _is_pickle(url) and not allow_pickle:
        yield Problem(path=path, words=_PICKLE)


def _hub(path: str, source: HubSource, *, allow_pickle: bool) -> Iterator[Problem]:
    yield from each(
        _repository(f"{path}.repository", source.repository),
        _revision(f"{path}.revision", source.revision),
        _patterns(f"{path}.files", source.files, allow_pickle=allow_pickle),
    )


def _repository(path: str, name: str) -> Iterator[Problem]:
    if not _is(_REPOSITORY, name):
        yield Problem(path=path, words=f"{name!r} is not a repository: organisation/name")


def _revision(path: str, name: str | None) -> Iterator[Problem]:
    if name is not None and not _is(_REVISION, name):
        yield Problem(path=path, words=f"{name!r} is not a branch, a tag or a commit")


def _patterns(path: str, patterns: Sequence[str], *, allow_pickle: bool) -> Iterator[Problem]:
    for number, pattern in enumerate(patterns):
        yield from each(_pattern(f"{path}[{number}]", pattern, allow_pickle=allow_pickle))


def _pattern(path: str, pattern: str, *, allow_pickle: bool) -> Iterator[Problem]:
    if pattern.startswith("/") or ".." in pattern.split("/") or not pattern.isprintable():
        words = f"{pattern!r} is not a pattern of files in a repository"
        yield Problem(path=path, words=words)
    if not allow_pickle and _names_pickles(pattern):
        yield Problem(path=path, words=_PICKLE)


def _is_pickle(name: str) -> bool:
    return name.lower().partition("?")[0].endswith(_PICKLES)


def _names_pickles(pattern: str) -> bool:
    """Say whether a pattern is made for pickles: `*` alone is not, its pickles are left out."""
    tail = pattern.rpartition(".")[2].lower()
    return "." in pattern and any(fnmatchcase(one[1:], tail) for one in _PICKLES)


def _is(pattern: re.Pattern[str], text: str) -> bool:
    # `str`: a text that could not be read is looked at here, where a pattern would not take it.
    return pattern.fullmatch(str(text)) is not None
