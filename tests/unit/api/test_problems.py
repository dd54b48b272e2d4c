"""Whatever a critical alert tells of the fleet is a problem of the status."""

import msgspec

from llmgw.control.api.status import _problems
from llmgw.model.device import Device, DeviceSample
from llmgw.model.fabric import Port, SubnetManager
from llmgw.model.node import Inventory, ProbeState
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import make_plane, running
from tests.fakes.scripted_agent import FakeAgent

PORT = Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0xa")
CARDS = tuple(Device(uuid=f"GPU-{number}", number=number, unhealthy=()) for number in range(8))


async def test_faults_that_page_at_night_are_problems_each_said_once(clock: FakeClock) -> None:
    plane = make_plane(clock)

    async def found() -> list[tuple[str, str]]:
        await settle()
        return [(one.subject, one.words) for one in _problems(plane)]

    async with running(plane):
        agent = FakeAgent("gpu-01")
        agent.inventory = Inventory(devices=CARDS, ports=(PORT,))
        await agent.connect(plane.agents)
        agent.beat(ports=(PORT,), devices=(DeviceSample(uuid="GPU-0", ecc_uncorrected=0),))
        assert await found() == []

        agent.beat(ports=(PORT,), devices=(DeviceSample(uuid="GPU-0", ecc_uncorrected=3),))
        words = "gpu0: ECC errors: - corrected, 3 uncorrected since the driver was loaded"
        assert await found() == [("gpu-01", words)]

        slowed = (DeviceSample(uuid="GPU-0", throttle_reasons=("power brake",)),)
        probes = (ProbeState(name="gpus", error="no end"),)
        agent.beat(ports=(PORT,), devices=slowed, probes=probes)
        assert await found() == [
            ("gpu-01", "gpu0: slowed down: power brake"),
            ("gpu-01", "probe gpus fails: no end"),
        ]

        down = msgspec.structs.replace(PORT, state="DOWN", master_guid=None)
        agent.beat(ports=(down,))
        assert await found() == [
            ("gpu-01", "port mlx5_0/1 went down: it was active and is DOWN"),
            ("InfiniBand", "no node sees a master subnet manager any more"),
        ]

        agent.beat(ports=(PORT,))
        silent = tuple(msgspec.structs.replace(one, unhealthy=("no answer",)) for one in CARDS)
        agent.say(inventory=Inventory(devices=silent))
        assert await found() == [("gpu-01", "gpu0-gpu7: no answer")]


async def test_several_masters_of_a_fabric_are_one_problem_whoever_sees_them(
    clock: FakeClock,
) -> None:
    plane = make_plane(clock)
    managers = (
        SubnetManager(guid="0xa", state="master", master_guid="0xa"),
        SubnetManager(guid="0xb", state="master", master_guid="0xa"),
    )
    async with running(plane):
        for name in ("gpu-01", "gpu-02"):
            agent = FakeAgent(name)
            agent.inventory = Inventory(ports=(PORT,), subnet_managers=managers)
            await agent.connect(plane.agents)
        await settle()
        assert [(one.subject, one.words) for one in _problems(plane)] == [
            ("fabric 0xa", "several subnet managers are master: 0xa, 0xb")
        ]
