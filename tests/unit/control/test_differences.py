"""What a heartbeat tells of ports and driver errors that was not known before."""

import time

import pytest

from llmgw.control.differences import (
    AT_ONCE,
    MOST_SUBJECTS,
    Difference,
    Key,
    Seen,
    differences,
)
from llmgw.model.device import DeviceHealth, Xid
from llmgw.model.fabric import Port, PortCounter
from llmgw.model.hardware import MASTER, PORT, XID
from llmgw.model.node import Heartbeat

FIRST: Key = (PORT, "mlx5_0/1")


def port(
    state: str | None = "ACTIVE", downed: int | None = None, master: str | None = None
) -> Port:
    full = downed == 255
    counter = PortCounter(name="link_downed", value=downed or 0, at_ceiling=full or None)
    counters = None if downed is None else (counter,)
    return Port(adapter="mlx5_0", number=1, state=state, master_guid=master, counters=counters)


def xid(code: int = 79, count: int = 1, **more) -> Xid:
    return Xid(code=code, count=count, **more)


class Told:
    """A node whose heartbeats are told one after the other."""

    def __init__(self, known: dict[Key, Seen] | None = None) -> None:
        self.known = known or {}

    def ports(self, *ports: Port) -> list[str]:
        return self._tell(Heartbeat(sequence=1, ports=ports))

    def xids(self, *xids: Xid, uuid: str = "GPU-0") -> list[str]:
        health = (DeviceHealth(uuid=uuid, xids=xids),)
        return self._tell(Heartbeat(sequence=1, health=health))

    def _tell(self, heartbeat: Heartbeat) -> list[str]:
        found, now = differences(self.known, heartbeat, lambda uuid: uuid.lower())
        self.known |= now
        return [_words(one) for one in found]


def _words(one: Difference) -> str:
    return one.words(one.before.value, one.times)


def test_what_is_seen_for_the_first_time_has_not_changed():
    node = Told()
    assert node.ports(port(downed=3, master="0x1")) == []
    assert node.known[FIRST] == Seen(value="ACTIVE", reading=3, total=0)
    assert node.known[MASTER, "mlx5_0/1"] == Seen(value="0x1")


def test_a_port_that_goes_down_and_comes_back_went_down_once():
    node = Told()
    node.ports(port(downed=3))
    assert node.ports(port("DOWN", downed=4)) == ["port mlx5_0/1: ACTIVE → DOWN"]
    assert node.ports(port("ACTIVE", downed=4)) == ["port mlx5_0/1: DOWN → ACTIVE"]
    assert node.known[FIRST].total == 1


def test_a_link_that_was_down_between_two_heartbeats_is_told_by_its_counter():
    node = Told()
    node.ports(port(downed=3))
    assert node.ports(port(downed=5)) == [
        "port mlx5_0/1: its link went down 2 times and is ACTIVE again"
    ]
    assert node.known[FIRST].total == 2


def test_a_port_without_that_counter_is_counted_by_its_state():
    node = Told()
    node.ports(port())
    assert node.ports(port("DOWN")) == ["port mlx5_0/1: ACTIVE → DOWN"]
    assert node.ports(port("INIT")) == ["port mlx5_0/1: DOWN → INIT"]
    assert node.ports(port()) == ["port mlx5_0/1: INIT → ACTIVE"]
    assert node.known[FIRST].total == 1


def test_a_port_whose_counter_stands_at_its_most_is_counted_by_its_state() -> None:
    node = Told()
    node.ports(port(downed=254))
    totals = []
    for state in ("DOWN", "ACTIVE", "DOWN", "INIT", "ACTIVE", "DOWN"):
        node.ports(port(state, downed=255))
        totals.append(node.known[FIRST].total)
    assert totals == [1, 1, 2, 2, 2, 3]
    node.ports(port("ACTIVE", downed=0))
    node.ports(port("DOWN", downed=1))
    assert node.known[FIRST].total == 4


def test_a_counter_that_begins_anew_takes_nothing_back():
    node = Told({FIRST: Seen(value="ACTIVE", reading=200, total=7)})
    assert node.ports(port(downed=0)) == []
    assert node.known[FIRST].total == 7
    node.ports(port(downed=2))
    assert node.known[FIRST].total == 9
    node.ports(port(downed=1))
    assert node.known[FIRST].total == 10


def test_what_happened_while_no_control_plane_was_there_is_told_by_the_next():
    node = Told({FIRST: Seen(value="ACTIVE", reading=5, total=7)})
    assert node.ports(port("DOWN", downed=8)) == [
        "port mlx5_0/1: ACTIVE → DOWN, its link went down 3 times"
    ]
    assert node.known[FIRST].total == 10


def test_another_master_is_told_with_both():
    node = Told()
    node.ports(port(master="0x1"))
    assert node.ports(port(master="0x2")) == ["port mlx5_0/1: master subnet manager 0x1 → 0x2"]
    assert node.ports(port(master="0x2")) == []


def test_a_master_that_is_no_longer_seen_is_told_and_so_is_its_return() -> None:
    node = Told()
    node.ports(port(master="0x1"))
    assert node.ports(port()) == ["port mlx5_0/1: master subnet manager 0x1 → -"]
    assert node.ports(port()) == []
    assert node.ports(port(master="0x1")) == ["port mlx5_0/1: master subnet manager - → 0x1"]
    assert Told().ports(port()) == []


def test_a_master_that_came_back_within_a_minute_is_told_as_that() -> None:
    node = Told()
    node.ports(port(master="0x1"))
    node.ports(port())
    found, _ = differences(node.known, Heartbeat(sequence=1, ports=(port(master="0x1"),)), str)
    (back,) = found
    assert back.words("0x1", 0) == (
        "port mlx5_0/1: master subnet manager 0x1 again, after it was another or none"
    )


def test_what_is_not_said_stays_as_it_is_known():
    node = Told()
    node.ports(port(master="0x1", downed=3))
    before = dict(node.known)
    assert node.ports(port(None)) == []
    assert node.ports() == []
    assert node.known == before


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            xid(79, 2, action="reboot", words="fell off the bus", cleared=False),
            "gpu-0: XID 79 (fell off the bus) 2 times: reboot the machine",
        ),
        (
            xid(31, 1, action="restart_application", words="a fault", cleared=True),
            "gpu-0: XID 31 (a fault) once",
        ),
        (xid(51), "gpu-0: XID 51 once"),
    ],
)
def test_errors_are_told_with_their_meaning_and_what_to_do(told: Xid, words: str):
    assert Told().xids(told) == [words]


def test_only_further_errors_are_told():
    node = Told()
    node.xids(xid(13, 4))
    assert node.xids(xid(13, 4)) == []
    assert node.xids(xid(13, 6), xid(79)) == ["gpu-0: XID 13 2 times", "gpu-0: XID 79 once"]
    assert node.known[XID, "GPU-0/13"] == Seen(reading=6, total=6)


def test_errors_of_the_next_boot_are_further_errors():
    node = Told()
    node.xids(xid(13, 4))
    assert node.xids() == []
    assert node.xids(xid(13, 4)) == ["gpu-0: XID 13 4 times"]
    assert node.xids(xid(13, 1)) == ["gpu-0: XID 13 once"]
    assert node.known[XID, "GPU-0/13"].total == 9


def test_a_log_that_can_not_be_read_for_a_while_is_no_new_boot():
    node = Told()
    node.xids(xid(13, 4))
    beat = Heartbeat(sequence=1, health=(DeviceHealth(uuid="GPU-0"),))
    found, now = differences(node.known, beat, str)
    assert (found, now) == ((), {})
    assert node.xids(xid(13, 4)) == []


def test_errors_of_two_cards_are_apart():
    node = Told()
    node.xids(xid(79))
    assert node.xids(xid(79), uuid="GPU-1") == ["gpu-1: XID 79 once"]
    assert node.known[XID, "GPU-0/79"].total == 1


def beat_of_xids(count: int, devices: int = 1) -> Heartbeat:
    told = tuple(Xid(code=code, count=1) for code in range(count))
    health = tuple(DeviceHealth(uuid=f"GPU-{n}", xids=told) for n in range(devices))
    return Heartbeat(sequence=1, health=health)


def test_a_heartbeat_full_of_known_errors_is_looked_through_once():
    told = beat_of_xids(20_000)
    known = {(XID, f"GPU-0/{code}"): Seen(reading=1, total=1) for code in range(20_000)}
    began = time.thread_time()
    assert differences(known, told, str) == ((), {})
    assert time.thread_time() - began < 0.5  # each against all takes minutes


def test_of_one_heartbeat_so_many_changes_are_taken_and_the_others_with_the_next():
    node, told = Told(), beat_of_xids(AT_ONCE + 10)
    assert len(node._tell(told)) == AT_ONCE
    assert len(node._tell(told)) == 10
    assert node._tell(told) == []


def test_a_node_that_names_ever_new_devices_and_ports_is_followed_to_a_bound():
    node = Told()
    for number in range(3 * MOST_SUBJECTS // AT_ONCE):
        ports = tuple(Port(adapter=f"p{number}-{n}", number=1, state="x") for n in range(60))
        health = tuple(DeviceHealth(uuid=f"U{number}-{n}", xids=(xid(),)) for n in range(AT_ONCE))
        node._tell(Heartbeat(sequence=1, ports=ports, health=health))
    assert MOST_SUBJECTS <= len(node.known) < MOST_SUBJECTS + AT_ONCE
    # What is known is followed on.
    first = next(key for key in node.known if key[0] == XID)[1].partition("/")[0]
    assert node.xids(xid(count=5), uuid=first) == [f"{first.lower()}: XID 79 4 times"]


def test_a_total_neither_falls_nor_grows_beyond_what_a_store_keeps():
    most = (1 << 63) - 1
    node = Told()
    for count in (most, 5, most, -9, most):
        node.xids(xid(count=count))
    assert node.known[XID, "GPU-0/79"].total == most
