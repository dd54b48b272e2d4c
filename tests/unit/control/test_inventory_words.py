"""What changed of what a node has, in words: why it now qualifies, or no longer does."""

import msgspec
import pytest

from llmgw.control.inventory import device_named, unhealthy, worse
from llmgw.control.news import differences, recovered, registered
from llmgw.control.plane import Plane
from llmgw.control.probing import news
from llmgw.model.device import MIG, Device, DeviceHealth, DeviceSample, NvlinkFabric, PciLink
from llmgw.model.events import Event
from llmgw.model.fabric import NvlinkDomain, Port, SubnetManager
from llmgw.model.node import (
    Filesystem,
    Host,
    Inventory,
    Node,
    NodeWarning,
    ProbeState,
    WeightsHeld,
)
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
    told = (*differences(old, new), *recovered(old, new))
    assert told == tuple(f"gpu0 (H100): {one}" for one in words)


def cards(*unhealthy: tuple[str, ...]) -> Inventory:
    return Inventory(
        devices=tuple(
            Device(uuid=f"GPU-{number}", number=number, name="H100", unhealthy=why)
            for number, why in enumerate(unhealthy)
        )
    )


def test_what_is_told_of_many_devices_is_one_sentence():
    fine, silent = cards(*[()] * 8), cards(*[("no answer",)] * 8)
    assert differences(fine, silent) == ("gpu0-gpu7: no answer",)
    assert unhealthy(silent) == ("gpu0-gpu7: no answer",)
    assert (differences(silent, fine), recovered(silent, fine)) == ((), ("gpu0-gpu7: fine",))


def test_a_warning_in_the_words_of_the_devices_is_said_once():
    silent = cards(("no answer",), ("no answer",))
    warning = NodeWarning(subject="gpu", words="no answer")
    told = msgspec.structs.replace(silent, warnings=(warning,))
    assert unhealthy(told) == ("gpu0, gpu1: no answer",)


def test_one_device_of_several_that_recovers_is_nothing_worse():
    both, one = cards(("hot",), ("hot",)), cards(("hot",), ())
    assert not worse(both, one)
    assert worse(one, both)


def test_a_port_that_goes_down_a_lost_master_and_a_second_one_are_worse():
    up, down = port(master_guid="0xa"), Inventory(ports=(Port(adapter="mlx5_0", number=1),))
    assert worse(up, down)
    assert not worse(down, up)
    assert worse(up, port())
    managers = (SubnetManager(guid="0xb", state="master", master_guid="0xa"),)
    split = msgspec.structs.replace(up, subnet_managers=managers)
    assert worse(up, split)
    words = "fabric 0xa: several subnet managers are master: 0xa, 0xb"
    assert differences(up, split) == (words,)


async def test_a_recovery_is_no_part_of_a_warning(clock: FakeClock):
    plane = make_plane(clock)
    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.inventory = cards(("hot",), ())
        await agent.connect(plane.agents)
        agent.say(inventory=cards((), ("hot",)))
        await settle()
        assert events(plane)[-2:] == [
            ("warning", "gpu1 (H100): hot"),
            ("info", "gpu0 (H100): fine"),
        ]


async def test_damage_of_a_device_is_warned_of_once(clock: FakeClock):
    plane = make_plane(clock)
    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.inventory = card(unhealthy=())
        await agent.connect(plane.agents)
        for count in (0, 1, 1):
            agent.beat(devices=(DeviceSample(uuid="GPU-0", ecc_uncorrected=count),))
        for _ in range(2):
            agent.beat(health=(DeviceHealth(uuid="GPU-0", remap_failed=True),))
        await settle()
        assert events(plane)[-2:] == [
            ("warning", "gpu0: 1 uncorrected ECC errors since the driver was loaded"),
            ("warning", "gpu0: a row of its memory could not be remapped"),
        ]


async def test_a_port_that_went_down_is_part_of_a_node_s_health_until_it_is_up(clock: FakeClock):
    plane = make_plane(clock)

    async def said(state: str) -> tuple[str, ...]:
        agent.beat(ports=(Port(adapter="mlx5_0", number=1, state=state),))
        await settle()
        node = plane.fleet.node("gpu-01")
        assert node is not None
        return node.health

    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        assert await said("DOWN") == (), "nothing was ever plugged in"
        assert await said("ACTIVE") == ()
        assert await said("DOWN") == ("port mlx5_0/1 went down: it was active and is DOWN",)
        assert ("warning", "port mlx5_0/1: ACTIVE → DOWN") in events(plane)
        assert await said("INIT") == ("port mlx5_0/1 went down: it was active and is INIT",)
        assert await said("ACTIVE") == ()


EIGHT = tuple(Device(uuid=f"GPU-{n}", number=n, name="H100") for n in range(8))
PORT = Port(adapter="mlx5_0", number=1, state="ACTIVE")
PORTS = (PORT, msgspec.structs.replace(PORT, adapter="mlx5_1"))
DOMAIN = NvlinkDomain(
    cluster_uuid="b2daed23", clique_id=1, imex_running=True, imex_channels=("channel0",)
)


def nvlink(**more) -> Inventory:
    return Inventory(nvlink_domain=msgspec.structs.replace(DOMAIN, **more))


def host(**more) -> Inventory:
    return Inventory(host=Host(**more))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (Inventory(devices=()), Inventory(devices=EIGHT), ("gpu0-gpu7 (H100) are there now",)),
        (Inventory(devices=EIGHT), Inventory(devices=()), ("gpu0-gpu7 (H100) are gone",)),
        (Inventory(devices=EIGHT[:1]), Inventory(devices=()), ("gpu0 (H100) is gone",)),
        (
            Inventory(ports=()),
            Inventory(ports=PORTS),
            ("ports mlx5_0/1, mlx5_1/1 are there now: ACTIVE",),
        ),
        (Inventory(ports=PORTS), Inventory(ports=()), ("ports mlx5_0/1, mlx5_1/1 are gone",)),
        (
            Inventory(ports=PORTS),
            Inventory(ports=tuple(msgspec.structs.replace(one, state="DOWN") for one in PORTS)),
            ("ports mlx5_0/1, mlx5_1/1: ACTIVE → DOWN",),
        ),
        (Inventory(), Inventory(devices=EIGHT[:1]), ("gpu0 (H100) is there now",)),
        (
            Inventory(devices=EIGHT[:1]),
            Inventory(devices=(*EIGHT[:3], Device(uuid="x", number=9, device_class="a100-80g"))),
            ("gpu1, gpu2 (H100) are there now", "gpu9 (a100-80g) is there now"),
        ),
        (card(), card(device_class="h100-80g"), ("gpu0 (H100): class - → h100-80g",)),
        (
            card(mig_enabled=False, memory_bytes=80 * 10**9),
            card(mig_enabled=True, memory_bytes=40 * 10**9),
            ("gpu0 (H100): MIG mode off → on", "gpu0 (H100): memory 80 GB → 40 GB"),
        ),
        (Inventory(ports=()), Inventory(ports=(PORT,)), ("port mlx5_0/1 is there now: ACTIVE",)),
        (Inventory(), Inventory(ports=(PORT,)), ("port mlx5_0/1 is there now: ACTIVE",)),
        (Inventory(ports=(PORT,)), Inventory(ports=()), ("port mlx5_0/1 is gone",)),
        (host(), host(memory_bytes=34 * 10**9, cpus=4), ("memory - → 34 GB", "CPUs - → 4")),
        (host(nvidia_driver=None), host(nvidia_driver="570"), ("NVIDIA driver - → 570",)),
        (
            host(cpu_extensions=("avx", "fma")),
            host(cpu_extensions=("avx", "avx2")),
            ("CPU extensions came: avx2", "CPU extensions went: fma"),
        ),
        (
            Inventory(),
            nvlink(),
            (
                "NVLink domain - → b2daed23/1",
                "nvidia-imex runs",
                "channels of nvidia-imex - → 1",
            ),
        ),
        (nvlink(), nvlink(clique_id=2), ("NVLink domain b2daed23/1 → b2daed23/2",)),
        (nvlink(), nvlink(imex_running=False), ("nvidia-imex does not run",)),
        (nvlink(), nvlink(imex_running=None), ("nvidia-imex is not seen any more",)),
        (nvlink(), nvlink(imex_channels=()), ("channels of nvidia-imex 1 → 0",)),
        (
            Inventory(filesystems=(Filesystem(mount="/"), Filesystem(mount="/old"))),
            Inventory(filesystems=(Filesystem(mount="/"), Filesystem(mount="/data"))),
            ("filesystems came: /data", "filesystems went: /old"),
        ),
        (
            Inventory(engines_probed=False, can_install=("a", "b")),
            Inventory(engines_probed=True, can_install=("a", "c")),
            ("has looked for its engines", "can install c", "can no longer install b"),
        ),
    ],
)
def test_what_placement_looks_at_is_told_when_it_changes(
    old: Inventory, new: Inventory, words: tuple[str, ...]
) -> None:
    assert differences(old, new) == words
    assert differences(new, new) == ()


def test_labels_that_changed_are_told() -> None:
    old = Node(id="n", labels={"rack": "7", "zone": "a"})
    new = Node(id="n", labels={"rack": "8", "tier": "fast"})
    assert registered(old, new) == (
        "label rack: 7 → 8",
        "label tier: - → fast",
        "label zone: a → -",
    )
    assert registered(old, old) == ()


def test_an_address_and_abilities_that_changed_are_told() -> None:
    old = Node(id="n", features=("start_shard", "read_log"))
    new = Node(id="n", address="10.0.0.9", features=("start_shard", "look"))
    assert registered(old, new) == (
        "address - → 10.0.0.9",
        "abilities of its agent came: look",
        "abilities of its agent went: read_log",
    )
    silent = Node(id="n", features=None)
    assert registered(old, silent) == registered(silent, old) == ()


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


async def test_managers_are_shown_as_long_as_a_port_sees_their_master(clock: FakeClock):
    plane = make_plane(clock)
    manager = SubnetManager(guid="0xb", state="standby", master_guid="0xa")
    sees = Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0xa")
    blind = msgspec.structs.replace(sees, master_guid=None)

    def shown() -> tuple[SubnetManager, ...] | None:
        node = plane.fleet.node("gpu-01")
        (room,) = plane.fleet.observed().nodes
        assert node is not None
        assert room.node.inventory.subnet_managers == node.inventory.subnet_managers
        return node.inventory.subnet_managers

    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.inventory = Inventory(ports=(sees,), subnet_managers=(manager,))
        await agent.connect(plane.agents)
        assert shown() == (manager,)
        agent.beat(ports=(blind,))
        await settle()
        assert shown() == ()
        # The agent tells of managers when they change: it does not tell of these again.
        agent.beat(ports=(sees,))
        await settle()
        assert shown() == (manager,)


async def test_a_node_that_gets_what_it_lacked_tells_people_so(clock: FakeClock):
    plane = make_plane(clock)
    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.inventory = Inventory(devices=())
        await agent.connect(plane.agents)
        before = len(events(plane))
        agent.say(inventory=Inventory(devices=EIGHT))
        await settle()
        assert events(plane)[before:] == [("info", "gpu0-gpu7 (H100) are there now")]


async def test_labels_of_an_agent_that_registers_anew_are_told_when_they_changed(
    clock: FakeClock,
):
    plane = make_plane(clock)
    async with running(plane):
        agent = FakeAgent("gpu-01")
        await agent.connect(plane.agents)
        before = len(events(plane))
        await agent.connect(plane.agents)
        assert events(plane)[before:] == []
        agent.labels = {"zone": "b"}
        await agent.connect(plane.agents)
        assert events(plane)[before:] == [("info", "label zone: a → b")]
