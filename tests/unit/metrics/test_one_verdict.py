"""Scrapes, commands, the console and placement say the same of whether a device is free."""

from collections import Counter
from itertools import product

from llmgw.cli.ctl import node_page
from llmgw.control.metrics.onenode import OneNode
from llmgw.control.metrics.tally import Tally
from llmgw.model.device import GRAPHICS, Device, DeviceSample, ForeignProcess
from llmgw.model.node import Heartbeat, Inventory, Node, Sample
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.plan.placement.room import Space
from llmgw.plan.records import Booking, NodeRoom
from llmgw_tui.draw import capacity
from llmgw_tui.draw.devices import device_state
from llmgw_tui.draw.seen import NodeSeen
from tests.fakes.fleet_parts import NOW

KIND = "h100-80g"
STRANGER = ForeignProcess(pid=7, command="python train.py")
DESKTOP = ForeignProcess(pid=8, command="Xorg", kind=GRAPHICS)
KINDS = tuple(product((False, True), ((), ("hot",)), ((), (STRANGER,), (DESKTOP,))))
"""Held, why it is unhealthy, and what else runs there."""


def node_of(liveness: str | None, wish: str | None) -> tuple[NodeRoom, Sample, Replica]:
    devices, readings, held = [], [], []
    for number, (taken, unhealthy, foreign) in enumerate(KINDS):
        uuid = f"GPU-{number}"
        devices.append(
            Device(uuid=uuid, number=number, device_class=KIND, kind="gpu", unhealthy=unhealthy)
        )
        readings.append(DeviceSample(uuid=uuid, foreign=foreign))
        held += [uuid] * taken
    cut = Device(uuid="GPU-99", number=99, device_class=KIND, mig_enabled=True, unhealthy=())
    node = Node(id="n", liveness=liveness, wish=wish, inventory=Inventory(devices=(*devices, cut)))
    booking = Booking(replica="m-1", rank=0, model="m", devices=tuple(held))
    room = NodeRoom(node=node, bookings=(booking,), readings=tuple(readings))
    sample = Sample(id="n", at=NOW, heartbeat=Heartbeat(sequence=1, devices=tuple(readings)))
    part = ReplicaShard(rank=0, node="n", state="ready", devices=tuple(held))
    return room, sample, Replica(id="m-1", model="m", state="ready", shards=(part,))


def test_every_verdict_is_one_everywhere() -> None:
    for liveness, wish in product(("ready", "lost", None), (None, "draining", "cordoned")):
        room, sample, replica = node_of(liveness, wish)
        tally = Tally()
        tally.add(OneNode(room, sample, NOW, {}))
        seen = NodeSeen(node=room.node, sample=sample, replicas=(replica,))
        found = Counter(seen.availability(one) for one in seen.devices or () if one.number != 99)
        counted = {reason: count for (_, reason), count in tally.unavailable.items()}
        counted |= {"free": tally.free[KIND], "held": tally.in_use[KIND]}
        assert {word: count for word, count in counted.items() if count} == found

        (only,) = capacity.classes([seen])
        assert (only.devices, only.held, only.free) == (12, tally.in_use[KIND], tally.free[KIND])
        free = [one.uuid for one in Space(room, set()).free().get(KIND, ())]
        said = [one.uuid for one in seen.devices or () if seen.availability(one) == "free"]
        assert said == (free if liveness == "ready" and wish is None else [])


def test_the_node_s_page_and_the_console_show_the_same_word() -> None:
    room, sample, replica = node_of("ready", None)
    seen = NodeSeen(node=room.node, sample=sample, replicas=(replica,))
    beat = sample.heartbeat
    head, *lines = node_page._devices(room.node, beat, [replica])
    at = head.index("STATE")
    page = [line[at : head.index("MEMORY")].split("  ")[0] for line in lines]
    console = [device_state(one, seen.availability(one)).word for one in seen.hardware]
    assert page == console
    assert set(page) == {"free", "in use", "unhealthy", "foreign", "in MIG mode"}
