"""What changed of what a node has, in words: why it now qualifies, or no longer does."""

import msgspec
import pytest

from llmgw.control.inventory import device_named, differences, worse
from llmgw.control.plane import Plane
from llmgw.control.probing import news
from llmgw.model.device import MIG, Device, NvlinkFabric, PciLink
from llmgw.model.events import Event
from llmgw.model.fabric import Port
from llmgw.model.node import Inventory, NodeWarning, ProbeState, WeightsHeld
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import make_plane, running
from tests.fakes.scripted_agent import FakeAgent

CARD = Device(uuid="GPU-0", number=0, name="H100")


def card(**more) -> Inventory:
    return Inventory(devices=(msgspec.structs.replace(CARD, **more),))


def port(**more) -> Inventory:
    return Inventory(ports=(Port(adapter="mlx5_0", number=1, state="ACTIVE", **more),))


def weights(*names: str, complete: bool = True) -> Inventory:
    held = (WeightsHeld(name=name, complete=complete) for name in names)
    return Inventory(weights=tuple(held))


def warned(*words: str) -> Inventory:
    return Inventory(warnings=tuple(NodeWarning(subject="gpu", words=one) for one in words))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (card(), card(unhealthy=()), ()),
        (card(unhealthy=()), card(unhealthy=("too hot", "XID 79")), ("too hot; XID 79",)),
        (card(unhealthy=("too hot",)), card(unhealthy=()), ("fine",)),
        (
            card(pci=PciLink(max_generation=5, lanes=16)),
            card(pci=PciLink(max_generation=5, lanes=8)),
            ("PCIe generation 5 with 16 lanes → generation 5 with 8 lanes",),
        ),
        (card(pci=None), card(pci=PciLink(max_generation=5, lanes=8)), ()),
        (
            card(nvlink=NvlinkFabric(state="In Progress")),
            card(nvlink=NvlinkFabric(state="Completed", status="Success")),
            ("NVLink fabric In Progress → Completed, Success",),
        ),
    ],
)
def test_what_changed_of_a_device_is_told(old: Inventory, new: Inventory, words: tuple[str, ...]):
    assert differences(old, new) == tuple(f"gpu0 (H100): {one}" for one in words)


def test_a_port_tells_fabric_master_and_network_apart():
    old = port(fabric="ib", master_guid="0x1", network="10.0.0.0/24")
    new = port(fabric="ib", master_guid="0x2", network="10.0.1.0/24")
    assert differences(old, new) == (
        "port mlx5_0/1: master subnet manager 0x1 → 0x2",
        "port mlx5_0/1: network 10.0.0.0/24 → 10.0.1.0/24",
    )


def test_weights_that_came_and_went_are_named_once_they_are_whole():
    assert differences(weights("a", "b"), weights("b", "c")) == (
        "weights came: c",
        "weights went: a",
    )
    assert differences(weights("a"), weights("a", complete=False)) == ("weights went: a",)
    many = weights(*"abcde")
    assert differences(weights(), many) == ("weights came: a, b, c and 2 more",)
    assert differences(Inventory(), many) == ()


def test_warnings_are_told_when_they_come_and_when_they_are_over():
    assert differences(warned("a", "b"), warned("b", "c")) == ("gpu: c", "gpu: no longer: a")


def test_a_node_is_worse_when_something_new_is_wrong():
    assert worse(card(unhealthy=()), card(unhealthy=("too hot",)))
    assert worse(warned("a"), warned("b"))
    assert not worse(card(unhealthy=("too hot",)), card(unhealthy=()))
    assert not worse(warned("a", "b"), warned("b"))


def test_a_device_is_called_as_people_know_it():
    slice_ = Device(uuid="MIG-1", kind=MIG, number=1301, card_uuid="GPU-3")
    there = Inventory(devices=(CARD, slice_))
    assert [device_named(there, uuid) for uuid in ("GPU-0", "MIG-1", "GPU-3", "GPU-9")] == [
        "gpu0",
        "gpu3/mig1",
        "gpu3",
        "GPU-9",
    ]


def probe(error: str | None = None, failing: float | None = None) -> tuple[ProbeState, ...]:
    return (ProbeState(name="gpus", error=error, failing=failing),)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (probe(), probe("no end", 5.0), [("warning", "can't read gpus: no end")]),
        (probe("no end", 5.0), probe("another", 9.0), []),
        (probe("no end", 5.0), probe(), [("info", "reads gpus again")]),
        (None, probe("no end", 5.0), [("warning", "can't read gpus: no end")]),
        (None, probe("no end", 600.0), []),
        (None, probe(), []),
        (probe("no end"), None, []),
    ],
)
def test_a_source_that_fails_is_told_once_and_once_when_it_recovers(old, new, told):
    assert list(news(old, new)) == told


def events(plane: Plane) -> list[tuple[str, str]]:
    return [(event.severity, _after_node(event)) for event in plane.events.recent()]


def _after_node(event: Event) -> str:
    return event.words.removeprefix("gpu-01 ")


async def test_a_node_tells_people_what_became_of_it(clock: FakeClock):
    plane = make_plane(clock)
    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.inventory = card(unhealthy=())
        await agent.connect(plane.agents)
        agent.beat(probes=probe())
        agent.say(inventory=card(unhealthy=("XID 79: reboot the machine",)))
        agent.beat(probes=probe("no end", 5.0))
        agent.beat(probes=probe("no end", 10.0))
        agent.say(inventory=card(unhealthy=()))
        agent.beat(probes=probe())
        await settle()
        assert events(plane)[-4:] == [
            ("warning", "gpu0 (H100): XID 79: reboot the machine"),
            ("warning", "can't read gpus: no end"),
            ("info", "gpu0 (H100): fine"),
            ("info", "reads gpus again"),
        ]
