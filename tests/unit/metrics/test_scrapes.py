"""Scrapes of a running control plane: the loop goes on, and many at once cost two renderings."""

import asyncio
import gzip
import threading
from collections.abc import Sequence

import pytest

from llmgw.base.errors import Unreachable
from llmgw.control.metrics import collector, packing
from llmgw.control.metrics.collector import MOST_SENT, SLICE, Scrapes, gather
from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.page import Page
from llmgw.control.metrics.snapshot import Snapshot
from tests.fakes.clock import FakeClock, settle
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import many
from tests.fakes.plane import FakePlane


class WorkingClock(FakeClock):
    """Each look at it costs as much as a slice of work holds ten times."""

    slept = 0.0

    def monotonic(self) -> float:
        self._worked = getattr(self, "_worked", 0.0) + SLICE / 10
        return super().monotonic() + self._worked

    async def sleep(self, seconds: float) -> None:
        """Others work meanwhile."""
        self.slept += seconds
        self._worked += seconds
        await asyncio.sleep(0)


class Counting:
    """How often a fleet was gathered; each rendering waits for a turn after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gathered = 0
        self.fail = False
        monkeypatch.setattr(collector, "gather", self.gather)

    def gather(self, plane: FakePlane) -> Snapshot:
        self.gathered += 1
        if self.fail:
            raise RuntimeError("no snapshot")
        return gather(plane)


@pytest.fixture
async def plane() -> FakePlane:
    return await FakePlane(many(40), WorkingClock(NOW)).prepare()


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


async def test_others_have_their_turn_while_a_scrape_is_made(plane: FakePlane) -> None:
    turns = 0
    scrape = asyncio.ensure_future(Scrapes(plane).scrape())
    while not scrape.done():
        turns += 1
        await asyncio.sleep(0)
    steps = len(list(Page(gather(plane), FAMILIES).steps()))
    assert turns >= steps // 12
    assert b"".join((await scrape).pieces).startswith(b"# HELP llmgw_build_info ")


async def test_the_process_is_told_beside_the_fleet(plane: FakePlane) -> None:
    text = b"".join((await Scrapes(plane).scrape()).pieces)
    assert b"\nprocess_cpu_seconds_total " in text
    assert b"\nprocess_resident_memory_bytes " in text
    assert b'\nllmgw_nodes{state="ready"} 40\n' in text


async def test_however_many_come_at_once_one_is_made_and_one_is_waited_for(
    plane: FakePlane, counting: Counting
) -> None:
    scrapes = Scrapes(plane)
    first = asyncio.ensure_future(scrapes.scrape())
    await settle_once()
    assert counting.gathered == 1
    others = [asyncio.ensure_future(scrapes.scrape()) for _ in range(MOST_SENT - 1)]
    pages = await asyncio.gather(first, *others)
    assert counting.gathered == 2
    assert all(page is pages[1] for page in pages[2:])
    assert pages[0] is not pages[1]


async def settle_once() -> None:
    """Let what waits for its turn begin, and not come to its end."""
    await asyncio.sleep(0)


async def test_nobody_gets_what_was_gathered_before_it_came(
    plane: FakePlane, counting: Counting
) -> None:
    scrapes = Scrapes(plane)
    for number in range(1, 4):
        await scrapes.scrape()
        assert counting.gathered == number


async def test_scrapes_without_a_pause_leave_half_of_the_time_to_others(
    plane: FakePlane,
) -> None:
    scrapes, clock = Scrapes(plane), plane.clock
    assert isinstance(clock, WorkingClock)
    await scrapes.scrape()
    began = clock.monotonic()
    await scrapes.scrape()
    first_rest = clock.slept
    took = clock.monotonic() - began - first_rest
    assert first_rest > 0
    assert first_rest == pytest.approx(took, rel=0.2)
    await clock.sleep(10.0)
    slept = clock.slept
    await scrapes.scrape()
    assert clock.slept == slept, "one that comes after a while does not wait"


async def test_a_page_is_compressed_once_for_all_who_share_it(
    plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    pack = packing._pack

    def counted(pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        made.append(threading.get_ident())
        return pack(pieces)

    monkeypatch.setattr(packing, "_pack", counted)
    text = await Scrapes(plane).scrape()
    found = await asyncio.gather(*(text.packed() for _ in range(20)))
    assert len(made) == 1
    assert made[0] != threading.get_ident(), "beside the loop"
    assert all(one is found[0] for one in found)
    assert gzip.decompress(b"".join(found[0])) == b"".join(text.pieces)


async def test_a_scrape_that_fails_or_leaves_costs_no_other(
    plane: FakePlane, counting: Counting
) -> None:
    scrapes = Scrapes(plane)
    leaving = asyncio.ensure_future(scrapes.scrape())
    await settle_once()
    waiting = [asyncio.ensure_future(scrapes.scrape()) for _ in range(3)]
    await settle_once()
    leaving.cancel()
    assert all(page.pieces for page in await asyncio.gather(*waiting))
    counting.fail = True
    failed = await asyncio.gather(*(scrapes.scrape() for _ in range(2)), return_exceptions=True)
    assert [str(one) for one in failed] == ["no snapshot"] * 2
    counting.fail = False
    assert (await scrapes.scrape()).pieces


async def test_answers_that_nobody_reads_do_not_add_up(plane: FakePlane) -> None:
    scrapes = Scrapes(plane)
    for _ in range(MOST_SENT):
        await scrapes.scrape()
    with pytest.raises(Unreachable, match=f"{MOST_SENT} scrapes are being answered already"):
        await scrapes.scrape()
    scrapes.sent()
    assert (await scrapes.scrape()).pieces


async def test_a_scrape_that_failed_holds_no_place(plane: FakePlane, counting: Counting) -> None:
    scrapes = Scrapes(plane)
    counting.fail = True
    for _ in range(MOST_SENT + 1):
        with pytest.raises(RuntimeError):
            await scrapes.scrape()
    counting.fail = False
    assert (await scrapes.scrape()).pieces


async def test_nothing_is_kept_between_scrapes(plane: FakePlane) -> None:
    scrapes = Scrapes(plane)
    await asyncio.gather(*(scrapes.scrape() for _ in range(3)))
    await settle()
    assert scrapes._newest is None
    assert not scrapes._making.locked()


def test_a_slice_is_well_below_the_longest_pause_that_is_allowed() -> None:
    assert SLICE <= 0.01
