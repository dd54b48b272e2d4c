"""Weights at an http(s) address: resumed where a transfer broke, checked, never from a private one.

An address that a catalog names must not make a node fetch from its own network by redirecting
there: a hop to a private address is refused unless the source itself is one.
"""

import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Refused, TimedOut, Unreachable
from llmgw.base.world import Files, Http, HttpStream
from llmgw.model.catalog import UrlSource
from llmgw.model.shard import Progress
from llmgw_agent.weights.sources import Tell, check_space

Resolve = Callable[[str], Awaitable[tuple[str, ...]]]
"""Returns the IP addresses of a host name; none when only a proxy may know it."""

STALL = 60.0
"""Seconds without a byte after which a transfer is broken off and resumed."""

_TRIES = 5
"""Transfers in a row that bring nothing before the source counts as unreachable."""

_CHECKS = 3
"""Tries before a source that does not answer counts as unreachable to a check."""

_PLAIN = {"accept-encoding": "identity"}
"""Compressed pieces could neither be joined nor counted."""

_HOPS = 5
_TELL_BYTES = 8 << 20
_PIECE = 4 << 20
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_WHOLE = re.compile(r"bytes \*/(\d{1,18})")
_BACKOFF = Backoff(first=1.0, most=30.0)


class UrlFetch:
    """Fetches one `UrlSource`.

    Args:
        source: what to fetch.
        http: follows no redirect itself.
        files: asked for the free space.
        clock: waits between tries.
        resolve: the name service.
        allow_http: plain http is allowed.
    """

    def __init__(
        self,
        source: UrlSource,
        http: Http,
        files: Files,
        clock: Clock,
        *,
        resolve: Resolve,
        allow_http: bool,
    ) -> None:
        self._source = source
        self._http = http
        self._files = files
        self._clock = clock
        self._resolve = resolve
        self._allow_http = allow_http
        self._private_allowed: bool | None = None

    async def check(self, cache: Path) -> None:
        """Have the server say that the file is there, and look at the disk; read nothing of it."""
        without_an_answer = 0
        while True:
            try:
                await self._ask(cache)
                return
            except (Unreachable, TimedOut):
                without_an_answer += 1
                if without_an_answer >= _CHECKS:
                    raise
                await self._clock.sleep(_BACKOFF.limit(without_an_answer))

    async def fetch(self, work: Path, tell: Tell) -> Path:
        """Transfer the file, resuming as often as bytes come; check the sum."""
        target = work / file_name(self._source.url)
        without_a_byte = 0
        while True:
            before = _size(target)
            try:
                await self._transfer(target, tell)
                break
            except (Unreachable, TimedOut) as error:
                without_a_byte = 0 if _size(target) > before else without_a_byte + 1
                if without_a_byte >= _TRIES:
                    raise
                tell(_stalled(target, error.message))
                await self._clock.sleep(_BACKOFF.limit(without_a_byte))
        self._check(target, tell)
        return target

    async def _ask(self, cache: Path) -> None:
        target = cache / file_name(self._source.url)
        async with self._answer(dict(_PLAIN)) as answer:
            _, total = _place(answer, target)
        if total is not None:
            check_space(self._files, cache, total, target.name)

    async def _transfer(self, target: Path, tell: Tell) -> None:
        async with self._answer(_resume_headers(target)) as answer:
            await self._receive(answer, target, tell)

    @asynccontextmanager
    async def _answer(self, headers: dict[str, str]) -> AsyncIterator[HttpStream]:
        """Open the source, through redirects whose every address is checked."""
        url = self._source.url
        for _ in range(_HOPS):
            await self._check_address(urlsplit(url))
            async with self._http.stream("GET", url, headers=headers, timeout=STALL) as answer:
                if answer.status not in (301, 302, 303, 307, 308):
                    yield answer
                    return
                url = urljoin(url, answer.headers.get("location", ""))
        raise Refused(f"{file_name(self._source.url)}: more than {_HOPS} redirects")

    async def _check_address(self, url: SplitResult) -> None:
        """Raise Refused for a scheme or an address that may not be fetched from."""
        if url.scheme != "https" and not (url.scheme == "http" and self._allow_http):
            raise Refused(
                f"{url.scheme or 'no scheme'}: weights are fetched over https alone",
                hint="set allow_http in the agent's file to allow plain http",
            )
        if not url.hostname:
            raise Refused(f"{url.geturl()[:200]!r} names no host")
        private = any(_is_private(a) for a in await self._resolve(url.hostname))
        if self._private_allowed is None:
            self._private_allowed = private
        if private and not self._private_allowed:
            raise Refused(f"redirected to {url.hostname}, which is a private address")

    async def _receive(self, answer: HttpStream, target: Path, tell: Tell) -> None:
        start, total = _place(answer, target)
        if start is None:
            return
        if total is not None:
            check_space(self._files, target.parent, total - start, target.name)
        _remember(target, answer)
        done, told = start, start
        with target.open("r+b" if start else "wb") as out:
            out.seek(start)
            out.truncate()
            async for piece in answer.pieces():
                out.write(piece)
                done += len(piece)
                if done - told >= _TELL_BYTES or done == total:
                    told = done
                    tell(_downloading(target, done, total))
        if total is not None and done < total:
            raise Unreachable(f"{target.name}: the transfer ended at byte {done} of {total}")

    def _check(self, target: Path, tell: Tell) -> None:
        wanted = self._source.sha256
        if wanted is None:
            return
        tell(Progress(words=f"checking {target.name}"))
        sha256 = hashlib.sha256()
        with target.open("rb") as data:
            while piece := data.read(_PIECE):
                sha256.update(piece)
        if sha256.hexdigest() != wanted.lower():
            target.unlink()
            raise Refused(f"{target.name}: has sha256 {sha256.hexdigest()}, wanted is {wanted}")


def file_name(url: str) -> str:
    """Return a plain file name for the last part of an address."""
    last = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    return _NOT_PLAIN.sub("_", last).lstrip("._-")[:200] or "weights"


def _is_private(address: str) -> bool:
    return not ipaddress.ip_address(address.partition("%")[0]).is_global


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _etag_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.etag")


def _resume_headers(target: Path) -> dict[str, str]:
    headers = dict(_PLAIN)
    etag = _etag_of(target)
    if _size(target) and etag.exists():
        headers |= {"range": f"bytes={_size(target)}-", "if-range": etag.read_text()}
    return headers


def _remember(target: Path, answer: HttpStream) -> None:
    """Keep what tells that a later answer is of the same file: a strong ETag, or nothing."""
    etag = answer.headers.get("etag", "")
    if etag.startswith('"'):
        _etag_of(target).write_text(etag)
    else:
        _etag_of(target).unlink(missing_ok=True)


def _place(answer: HttpStream, target: Path) -> tuple[int | None, int | None]:
    """Return where the answer's bytes belong and how long the file is.

    The place is None when nothing is missing any more. A length that is not said is None.
    """
    length = answer.headers.get("content-length", "")
    match = _RANGE.match(answer.headers.get("content-range", ""))
    if answer.status == 206 and match is not None and int(match[1]) == _size(target):
        return int(match[1]), None if match[2] == "*" else int(match[2])
    if answer.status == 200:
        return 0, int(length) if length.isdigit() else None
    whole = _WHOLE.match(answer.headers.get("content-range", ""))
    if answer.status == 416 and whole is not None and int(whole[1]) == _size(target):
        return None, _size(target)
    if answer.status in (206, 416):
        # Another part than was asked for, or more is here than there: start over.
        _etag_of(target).unlink(missing_ok=True)
        raise Unreachable(f"{target.name}: the server sent another part than was asked for")
    if answer.status in (404, 410):
        raise NotFound(f"{target.name}: the server answers {answer.status}, it is not there")
    if answer.status >= 500 or answer.status == 429:
        raise Unreachable(f"{target.name}: the server answers {answer.status}")
    raise Refused(f"{target.name}: the server answers {answer.status}")


def _downloading(target: Path, done: int, total: int | None) -> Progress:
    return Progress(words=f"downloading {target.name}", done_bytes=done, total_bytes=total)


def _stalled(target: Path, reason: str) -> Progress:
    return Progress(words=f"stalled, trying again: {reason}", done_bytes=_size(target))
