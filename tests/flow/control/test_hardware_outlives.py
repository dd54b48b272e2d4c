"""What happened to hardware, in a real store that a control plane left without closing it."""

from pathlib import Path

from llmgw.control.events import Events
from llmgw.control.feed import Feed
from llmgw.control.hardware import DAY, Hardware
from llmgw.control.writing import Writing
from llmgw.model.device import DeviceHealth, Xid
from llmgw.model.fabric import Port, PortCounter
from llmgw.model.node import Heartbeat
from llmgw.store.sqlite import SqliteStore
from tests.fakes.clock import FakeClock


def beat(state: str, downed: int, master: str, errors: int) -> Heartbeat:
    port = Port(
        adapter="mlx5_0",
        number=1,
        state=state,
        master_guid=master,
        counters=(PortCounter(name="link_downed", value=downed),),
    )
    xid = Xid(code=79, count=errors, action="reboot", words="fell off the bus", cleared=False)
    health = DeviceHealth(uuid="GPU-3", xids=(xid,) if errors else ())
    return Heartbeat(sequence=1, ports=(port,), health=(health,))


async def leader(path: Path, clock: FakeClock, holder: str) -> tuple[SqliteStore, Hardware]:
    store = SqliteStore(path, version="0.1.0")
    await store.open(holder)
    writing = Writing(clock)
    hardware = Hardware(store, clock, Events(store, clock, Feed("e", clock), writing), writing)
    await hardware.load()
    return store, hardware


async def test_a_new_leader_lists_the_last_day_and_no_total_falls(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "llmgw.db"
    store, hardware = await leader(path, clock, "a")
    hardware.heard("gpu-01", beat("ACTIVE", 0, "0x1", 0), str)
    hardware.heard("gpu-01", beat("DOWN", 1, "0x2", 2), str)
    await hardware.write()
    await store.close()  # what a kill does to the lock; nothing further is written
    await clock.advance(DAY - 3600)
    store, hardware = await leader(path, clock, "b")
    assert sorted(one.words for one in await hardware.changes(clock.now() - DAY)) == [
        "GPU-3: XID 79 (fell off the bus) 2 times: reboot the machine",
        "port mlx5_0/1: ACTIVE → DOWN",
        "port mlx5_0/1: master subnet manager 0x1 → 0x2",
    ]
    hardware.heard("gpu-01", beat("ACTIVE", 4, "0x2", 2), str)
    assert hardware.flaps() == {"gpu-01": {"mlx5_0/1": 4}}
    await hardware.write()
    await store.close()
    await clock.advance(2 * DAY)
    store, hardware = await leader(path, clock, "c")
    assert await hardware.changes(clock.now() - DAY) == ()
    assert hardware.flaps() == {"gpu-01": {"mlx5_0/1": 4}}
    await store.close()
