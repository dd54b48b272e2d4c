"""Changes of ports and devices: one at a time, stored behind, gone on with by the next leader."""

import pytest

from llmgw.base.errors import Unreachable
from llmgw.control.differences import MOST_SUBJECTS
from llmgw.control.events import Events
from llmgw.control.feed import Feed
from llmgw.control.hardware import DAY, Hardware
from llmgw.control.writing import Writing
from llmgw.model.device import DeviceHealth, Xid
from llmgw.model.fabric import Port, PortCounter
from llmgw.model.hardware import HardwareChange
from llmgw.model.node import Heartbeat
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, running
from tests.fakes.scripted_agent import FakeAgent


class Leader:
    """One control plane's part, over a store that may outlive it."""

    def __init__(self, store: MemoryStore, clock: FakeClock) -> None:
        writing = Writing(clock)
        self.events = Events(store, clock, Feed("e", clock), writing)
        self.hardware = Hardware(store, clock, self.events, writing)

    def hear(self, node: str = "gpu-01", **said) -> None:
        self.hardware.heard(node, Heartbeat(sequence=1, **said), lambda uuid: "gpu3")

    def port(self, state: str = "ACTIVE", downed: int = 0, node: str = "gpu-01") -> None:
        counters = (PortCounter(name="link_downed", value=downed),)
        self.hear(node, ports=(Port(adapter="mlx5_0", number=1, state=state, counters=counters),))

    def xid(
        self,
        count: int,
        code: int = 79,
        action: str | None = "reboot",
        last_seen: float | None = None,
    ) -> None:
        told = Xid(code=code, count=count, action=action, cleared=False, last_seen=last_seen)
        self.hear(health=(DeviceHealth(uuid="GPU-3", xids=(told,)),))

    def told(self) -> list[tuple[str, str]]:
        return [(event.severity, event.words) for event in self.events.recent()]

    async def words(self, since: float = 0.0, node: str | None = None) -> list[str]:
        return [one.words for one in await self.hardware.changes(since, node)]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def leader(store: MemoryStore, clock: FakeClock) -> Leader:
    return Leader(store, clock)


async def test_a_change_is_listed_at_once_and_stored_behind(leader, store):
    leader.port()
    leader.port("DOWN", 1)
    assert await leader.words() == ["port mlx5_0/1: ACTIVE → DOWN"]
    assert store.hardware_rows == {}
    assert await leader.hardware.write() == 1
    (change,) = store.hardware_rows.values()
    assert change == HardwareChange(
        id="1800000000000000".zfill(17),
        at=1_800_000_000.0,
        until=1_800_000_000.0,
        node="gpu-01",
        kind="port",
        subject="mlx5_0/1",
        before="ACTIVE",
        after="DOWN",
        times=1,
        total=1,
        reading=1,
        words="port mlx5_0/1: ACTIVE → DOWN",
    )
    assert await leader.words() == ["port mlx5_0/1: ACTIVE → DOWN"]


async def test_what_happens_again_within_a_minute_is_one_change(leader, store, clock: FakeClock):
    leader.port()
    for number in range(1, 20):
        leader.port("DOWN", number)
        leader.port("ACTIVE", number)
        await clock.advance(5)
    await leader.hardware.write()
    (change,) = store.hardware_rows.values()
    assert change.words == "port mlx5_0/1: its link went down 19 times and is ACTIVE again"
    assert (change.times, change.total, change.until - change.at) == (19, 19, 90.0)
    await clock.advance(120)
    leader.port("DOWN", 20)
    assert len(await leader.words()) == 2


async def test_the_next_leader_lists_the_last_day_and_goes_on_counting(leader, store, clock):
    leader.port()
    leader.port("DOWN", 1)
    leader.xid(2)
    await leader.hardware.write()
    await clock.advance(3600)
    following = Leader(store, clock)
    await following.hardware.load()
    assert following.hardware.flaps() == {"gpu-01": {"mlx5_0/1": 1}}
    following.port("DOWN", 1)
    following.xid(2)
    assert await following.words() == [
        "port mlx5_0/1: ACTIVE → DOWN",
        "gpu3: XID 79 2 times: reboot the machine",
    ]
    following.port("ACTIVE", 4)
    following.xid(3)
    assert (await following.words())[2:] == [
        "port mlx5_0/1: DOWN → ACTIVE, its link went down 3 times",
        "gpu3: XID 79 once: reboot the machine",
    ]
    assert following.hardware.flaps() == {"gpu-01": {"mlx5_0/1": 4}}


async def test_a_port_that_fell_is_known_for_a_day_to_the_next_leader_too(leader, store, clock):
    words = "port mlx5_0/1 went down: it was active and is DOWN"
    leader.port()
    leader.port("DOWN", 1)
    assert leader.hardware.fallen("gpu-01") == (words,)
    await leader.hardware.write()
    following = Leader(store, clock)
    await following.hardware.load()
    assert following.hardware.fallen("gpu-01") == (words,)
    await clock.advance(DAY + 1)
    assert following.hardware.fallen("gpu-01") == ()
    following.port("ACTIVE", 1)
    following.port("DOWN", 2)
    assert following.hardware.fallen("gpu-01") == (words,)
    following.hardware.forget("gpu-01")
    assert following.hardware.fallen("gpu-01") == ()


async def test_flaps_never_fall_over_starts_and_days(leader, store, clock: FakeClock):
    counts = []
    for day in range(5):
        leader.port("ACTIVE", day * 2)
        leader.port("ACTIVE", day * 2 + 1)
        await leader.hardware.write()
        counts.append(leader.hardware.flaps()["gpu-01"]["mlx5_0/1"])
        await clock.advance(DAY)
        leader = Leader(store, clock)
        await leader.hardware.load()
        counts.append(leader.hardware.flaps()["gpu-01"]["mlx5_0/1"])
    assert counts == sorted(counts)
    assert counts[-1] == 9
    assert len(store.hardware_rows) <= 2


async def test_only_what_ended_since_then_is_listed(leader, clock: FakeClock):
    leader.port()
    leader.port("DOWN", 1)
    leader.port(node="gpu-02")
    await clock.advance(100)
    leader.port("INIT", 1, node="gpu-02")
    await leader.hardware.write()
    now = clock.now()
    assert await leader.words(now - 50) == ["port mlx5_0/1: ACTIVE → INIT"]
    assert await leader.words(0.0, "gpu-01") == ["port mlx5_0/1: ACTIVE → DOWN"]
    assert await leader.words(0.0, "gpu-09") == []


async def test_people_are_told_once_of_errors_and_of_flaps_that_nobody_saw(leader, clock):
    leader.xid(1)
    leader.xid(2)
    leader.xid(3)
    await clock.advance(61)
    leader.xid(4, 13, "restart_application")
    leader.port()
    leader.port("ACTIVE", 1)
    assert leader.told() == [
        ("warning", "gpu-01 gpu3: XID 79 once: reboot the machine"),
        ("info", "gpu-01 gpu3: XID 13 4 times: restart the engine"),
        ("warning", "gpu-01 port mlx5_0/1: its link went down once and is ACTIVE again"),
    ]


async def test_a_driver_error_is_dated_and_sorted_by_when_it_happened(leader, store, clock):
    now = clock.now()
    leader.port()
    leader.port("DOWN", 1)
    leader.xid(3, 48, last_seen=now - 745 * DAY)
    leader.xid(1, 79, last_seen=now - 7200)
    leader.xid(1, 31, last_seen=now + 500)  # its clock is ahead
    leader.xid(1, 13, last_seen=float("nan"))
    leader.xid(1, 94, last_seen=0.0)
    found = await leader.hardware.changes(0.0)
    assert [(one.subject, one.when) for one in found] == [
        ("GPU-3/48", now - 745 * DAY),
        ("GPU-3/79", now - 7200),
        ("mlx5_0/1", now),
        ("GPU-3/31", now),
        ("GPU-3/13", now),
        ("GPU-3/94", now),
    ]
    assert {one.at for one in found} == {now}
    await leader.hardware.write()
    assert await leader.hardware.changes(0.0) == found


async def test_old_driver_errors_of_a_machine_that_joins_are_not_told_as_new(leader, clock):
    now = clock.now()
    leader.xid(3, 48, "reset", last_seen=now - 745 * DAY)
    leader.xid(1, 79, last_seen=now - 7200)
    leader.xid(1, 95, "reset", last_seen=now - 5)
    assert leader.told() == [
        ("info", "gpu-01 gpu3: XID 48 3 times: reset the device (745d00h ago)"),
        ("warning", "gpu-01 gpu3: XID 79 once: reboot the machine (2h00m ago)"),
        ("warning", "gpu-01 gpu3: XID 95 once: reset the device"),
    ]


async def test_a_new_driver_error_does_not_go_on_an_old_one_that_was_just_heard_of(leader, clock):
    old = clock.now() - 745 * DAY
    leader.xid(3, last_seen=old)
    await clock.advance(5)
    leader.xid(4, last_seen=clock.now())
    await clock.advance(5)
    leader.xid(5, last_seen=clock.now())
    first, second = await leader.hardware.changes(0.0)
    assert (first.when, first.times) == (old, 3)
    assert (second.when, second.times) == (clock.now() - 5, 2)
    assert leader.told()[-1] == ("warning", "gpu-01 gpu3: XID 79 once: reboot the machine")


async def test_changes_that_the_inventory_tells_of_are_not_told_twice(leader):
    leader.port()
    leader.port("DOWN", 1)
    leader.hear(ports=(Port(adapter="mlx5_0", number=1, master_guid="0x1"),))
    leader.hear(ports=(Port(adapter="mlx5_0", number=1, master_guid="0x2"),))
    assert leader.told() == []
    assert len(await leader.words()) == 2


async def test_a_removed_node_is_forgotten(leader):
    leader.port()
    leader.port("DOWN", 1)
    leader.hardware.forget("gpu-01")
    assert leader.hardware.flaps() == {}
    leader.port("DOWN", 1)
    assert leader.hardware.flaps() == {"gpu-01": {"mlx5_0/1": 0}}


async def test_a_store_that_is_away_costs_no_change(leader, store, clock: FakeClock, monkeypatch):
    async def away(changes, *, before):
        raise Unreachable("the store is away")

    monkeypatch.setattr(store, "put_hardware", away)
    leader.port()
    leader.port("DOWN", 1)
    with pytest.raises(Unreachable):
        await leader.hardware.write()
    monkeypatch.undo()
    assert await leader.hardware.write() == 1
    assert len(store.hardware_rows) == 1


async def test_a_change_that_goes_on_while_it_is_written_is_written_again(leader, store):
    leader.port()
    leader.port("DOWN", 1)
    put = store.put_hardware

    async def slow(changes, *, before):
        await put(changes, before=before)
        if len(store.hardware_rows) == 1 and leader.hardware.flaps()["gpu-01"]["mlx5_0/1"] == 1:
            leader.port("ACTIVE", 2)

    store.put_hardware = slow
    await leader.hardware.write()
    (change,) = store.hardware_rows.values()
    assert (change.after, change.total) == ("ACTIVE", 2)


async def test_a_control_plane_that_was_killed_leaves_the_next_one_all_it_knew(clock: FakeClock):
    store = MemoryStore()
    killed = make_plane(clock, store)
    async with running(killed):
        agent = FakeAgent("gpu-01")
        await agent.connect(killed.agents)
        agent.beat(ports=(_port("ACTIVE", 0),))
        agent.beat(ports=(_port("DOWN", 1),))
        await settle()
    following = make_plane(clock, store, server_id="cp-2")
    async with running(following):
        await agent.connect(following.agents)
        agent.beat(ports=(_port("ACTIVE", 2),))
        await settle()
        changes = await following.hardware.changes(clock.now() - DAY)
        assert following.hardware.flaps() == {"gpu-01": {"a/1": 2}}
    assert [one.words for one in changes] == ["port a/1: ACTIVE → DOWN", "port a/1: DOWN → ACTIVE"]


def _port(state: str, downed: int) -> Port:
    counters = (PortCounter(name="link_downed", value=downed),)
    return Port(adapter="a", number=1, state=state, counters=counters)


async def test_a_node_of_which_no_more_is_followed_is_told_of_once(leader, store):
    for start in range(0, 3 * MOST_SUBJECTS, 100):
        told = tuple(Xid(code=code, count=1) for code in range(start, start + 100))
        leader.hear(health=(DeviceHealth(uuid="GPU-3", xids=told),))
    full = [words for _, words in leader.told() if "others are not followed" in words]
    assert full == [
        f"gpu-01 named {MOST_SUBJECTS} ports and driver errors: others are not followed"
    ]
    assert len(leader.hardware._last) < MOST_SUBJECTS + 128
    leader.hardware.forget("gpu-01")
    assert (leader.hardware._last, leader.hardware._known) == ({}, {})
