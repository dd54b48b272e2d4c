"""A store that can't be written: it is said, nothing is lost meanwhile, and it ends by itself."""

import pytest

from llmgw.base.errors import Unreachable
from llmgw.control.api.status import _problems
from llmgw.control.behind import BACKLOG
from llmgw.control.events import KEPT
from llmgw.control.metrics.collector import gather
from llmgw.control.plane import Plane
from llmgw.control.writing import FORGOTTEN, Writing
from llmgw.model.events import Event
from llmgw.model.keys import UsageReport
from llmgw.model.link import GatewayMessage
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, running
from tests.fakes.scripted_agent import FakeAgent
from tests.unit.control.calling import Caller
from tests.waiting import wait_until

WHY = "/d/llmgw.db: the disk is full; nothing was changed"
HINT = "free space on the filesystem of /d"


class Disk(MemoryStore):
    """A store whose disk may be full: it can be read, and keeps nothing."""

    full = False

    def _need_space(self) -> None:
        if self.full:
            raise Unreachable(WHY, hint=HINT)

    async def add_event(self, event: Event) -> None:
        self._need_space()
        await super().add_event(event)

    async def put_hardware(self, changes, *, before: float) -> None:
        self._need_space()
        await super().put_hardware(changes, before=before)

    async def put_node(self, node) -> None:
        self._need_space()
        await super().put_node(node)

    async def put_traffic(self, traffic) -> None:
        self._need_space()
        await super().put_traffic(traffic)

    async def apply_usage(self, report: UsageReport, *, at: float) -> bool:
        self._need_space()
        return await super().apply_usage(report, at=at)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def plane(clock: FakeClock, disk: Disk) -> Plane:
    return make_plane(clock, disk)


def told(plane: Plane) -> list[str]:
    return [event.words for event in plane.events.recent() if event.kind == "server"]


async def test_a_full_disk_is_a_trouble_of_the_cluster_until_there_is_space_again(
    plane: Plane, disk: Disk, clock: FakeClock
) -> None:
    async with running(plane):
        await settle()
        assert gather(plane).unwritten["events"] is False
        disk.full = True
        await FakeAgent("gpu-01").connect(plane.agents)
        await clock.advance(30)
        problems = [(one.subject, one.words) for one in _problems(plane)]
        assert problems[0] == (
            "store",
            f"events, nodes can't be written for 30s: {WHY}; {HINT}",
        )
        assert gather(plane).unwritten == {"events": True, "nodes": True}
        assert told(plane)[-1] == f"nodes can't be written into the store: {WHY}; {HINT}"
        disk.full = False
        await clock.advance(61)
        assert [one for one in _problems(plane) if one.subject == "store"] == []
        assert not any(gather(plane).unwritten.values())
        assert told(plane)[-1].startswith("the store is written again, after ")


async def test_what_happens_meanwhile_is_listed_and_written_once_there_is_space(
    plane: Plane, disk: Disk, clock: FakeClock
) -> None:
    async with running(plane):
        await settle()
        since = clock.now() - 3600
        disk.full = True
        await FakeAgent("gpu-01").connect(plane.agents)
        await clock.advance(30)
        kept = [one.words for one in await disk.events(since=since)]
        listed = [one.words for one in await plane.events.since(since)]
        assert any("gpu-01 registered" in words for words in listed)
        assert not any("gpu-01 registered" in words for words in kept)
        disk.full = False
        await clock.advance(10)
        assert set(listed) <= {one.words for one in await disk.events(since=since)}


async def test_of_a_disk_that_stays_full_the_newest_events_wait_and_no_more(
    plane: Plane, disk: Disk, clock: FakeClock
) -> None:
    async with running(plane):
        await settle()
        disk.full = True
        for number in range(BACKLOG + 50):
            plane.events.add("model", "m", f"event {number}")
        await clock.advance(10)
        listed = [one.words for one in await plane.events.since(clock.now() - 60)]
        assert f"event {BACKLOG + 49}" in listed
        assert len(plane.events.recent()) == KEPT
        assert plane.events.dropped > 0
        disk.full = False
        await clock.advance(6)
        await wait_until(lambda: not plane.events._behind.waiting())
        stored = [one.words for one in await disk.events(since=clock.now() - 60, limit=5000)]
        assert f"event {BACKLOG + 49}" in stored


async def test_one_cause_is_said_once_also_where_a_pass_fails_of_it(
    plane: Plane, disk: Disk, clock: FakeClock
) -> None:
    async with running(plane):
        gateway = await Caller(plane).register()
        await settle()
        disk.full = True
        usage = UsageReport(gateway="g1", boot="b1", worker=0, sequence=1, totals=())
        gateway.stream.say(GatewayMessage(usage=usage))
        plane.events.add("model", "m", "a model came")
        await clock.advance(5)
        (trouble,) = [one for one in _problems(plane) if WHY in one.words]
        assert trouble.words.startswith("events, usage can't be written for")
        assert gateway.stream.sent[-1].usage_taken is None


async def test_a_failure_that_nobody_repeats_is_forgotten_after_a_while(clock: FakeClock) -> None:
    said: list[tuple[str, str]] = []
    writing = Writing(clock)
    writing.on_change(lambda severity, words: said.append((severity, words)))
    writing.failed("usage", Unreachable("full"))
    writing.failed("events", Unreachable("full"))
    writing.done("events")
    assert said == [("problem", "usage can't be written into the store: full")]
    assert writing.failing() == {"usage": True, "events": False}
    await clock.advance(FORGOTTEN + 1)
    assert writing.failing() == {"usage": False, "events": False}
